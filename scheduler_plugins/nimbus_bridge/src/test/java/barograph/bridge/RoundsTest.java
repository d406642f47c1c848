package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What of rounds is about files, Thrift or Java; all else is in round_cases (RoundCasesTest). */
class RoundsTest {
    private static final String STAR = "star-1-1763712300";
    private static final String LINEAR = "linear-2-1763712301";

    @TempDir
    Path folder;
    private Path events;
    private World world;

    @BeforeEach
    void begin() {
        events = folder.resolve("bridge.jsonl");
        world = new World(events);
    }

    @Test
    void nimbusIsAskedToWaitForAsLongAsItIsTold() {
        assertEquals(30, NimbusCalls.options(Map.of(), 30).get_wait_secs());
        assertFalse(NimbusCalls.options(Map.of(), 30).is_set_num_executors());
        assertTrue(NimbusCalls.options(Map.of("centre", 4), 0).is_set_wait_secs(), "else it waits the message timeout");
    }

    @Test
    void plansThatCannotBeReadAreNone() throws Exception {
        JsonNode request = Cases.request("star_runs");
        world.answer = World.json("{\"v\": 2, \"decision_id\": \"d17\", \"topologies\": {\"" + STAR + "\": {\"executors\": {\"centre\": 4}}}}");
        world.round(RequestCluster.of(request));
        Files.writeString(folder.resolve("plans.json"), "[{\"decisionId\": \"d1");
        world.restart();
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        assertFalse(world.requests.get(1).topology(STAR).orElseThrow().rebalancing());
    }

    @Test
    void onePlanThatFailsDoesNotKeepTheOthers() throws Exception {
        JsonNode request = Cases.request("star_and_other");
        world.answer = World.json("{\"v\": 2, \"decision_id\": \"d17\", \"topologies\": {\"" + LINEAR + "\": {\"executors\": {\"bolt_1\": 5},"
            + "\"placement\": {\"1\": \"m5:6700\"}}, \"" + STAR + "\": {\"placement\": {\"9\": \"m5:6701\"}}}}");
        world.round(RequestCluster.of(request));
        JsonNode broken = request.deepCopy();
        ((ArrayNode) broken.get("topologies").get(1).get("components")).remove(0);
        world.answer = World.json(World.NOTHING);
        assertEquals("m5:6701", world.round(RequestCluster.of(broken, List.of(STAR))).placement(STAR).get("9"));
        assertEquals(Map.of(LINEAR, false, STAR, true),
            world.reports.stream().collect(Collectors.toMap(Report::topology, Report::ok)));
        assertTrue(Files.readString(events).contains("the bridge failed: java.lang.NullPointerException"));
    }
}
