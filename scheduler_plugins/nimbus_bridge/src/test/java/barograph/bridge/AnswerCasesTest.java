package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * answers_*.json: which answers are valid, and what they change in a Storm cluster: `at_once` has the tasks that are
 * elsewhere than in the request (null: nowhere), `after` those that are elsewhere again after the rebalance.
 */
class AnswerCasesTest {
    @TempDir
    Path folder;

    static Stream<Path> cases() {
        return Cases.named("answers_").stream();
    }

    @ParameterizedTest
    @MethodSource("cases")
    void answersAreJudgedAsTheCaseSays(Path file) throws Exception {
        JsonNode whole = Cases.read(file);
        Request request = Cases.JSON.treeToValue(whole.get("request"), Request.class);
        if (whole.get("valid").asBoolean()) {
            AnswerCheck.check(request, Answer.parse(whole.get("answer")));
        } else {
            InvalidAnswer invalid = assertThrows(
                InvalidAnswer.class, () -> AnswerCheck.check(request, Answer.parse(whole.get("answer"))));
            if (Cases.WRITE) {
                ((ObjectNode) whole).put("message", invalid.getMessage());
                Cases.write(file, whole);
            }
            assertEquals(whole.path("message").asText(), invalid.getMessage());
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void answersAreAppliedAsTheCaseSays(Path file) throws Exception {
        JsonNode whole = Cases.read(file);
        Path events = folder.resolve("bridge.jsonl");
        JsonNode applied = Cases.JSON.valueToTree(apply(whole, new World(events)));
        if (Cases.WRITE) {
            ((ObjectNode) whole).set("applied", applied);
            Cases.write(file, whole);
        }
        assertEquals(whole.get("applied"), applied);
        assertEquals(whole.get("valid").asBoolean(), !Files.exists(events), "a fallback is an event");
    }

    private static Map<String, Object> apply(JsonNode whole, World world) {
        JsonNode request = whole.get("request");
        for (JsonNode topology : request.get("topologies")) {
            if (topology.get("rebalancing").asBoolean()) {
                putUnderWay(world, request, topology);
            }
        }
        world.answer = whole.get("answer");
        RequestCluster storm = world.round(RequestCluster.of(request));
        Map<String, Object> applied = new TreeMap<>();
        Map<String, Map<Integer, String>> atOnce = placements(storm);
        applied.put("at_once", changes(placements(RequestCluster.of(request)), atOnce));
        applied.put("rebalance", new TreeMap<>(world.rebalances));
        JsonNode placed = withPlacements(request, storm);
        RequestCluster after = world.rebalances.isEmpty() ? storm : world.rebalanceRound(placed);
        applied.put("after", changes(atOnce, placements(after)));
        return applied;
    }

    /** Begins a plan in a round before, as the request says. */
    private static void putUnderWay(World world, JsonNode request, JsonNode topology) {
        JsonNode executor = topology.get("components").get(0).get("executors").get(0);
        String other = request.get("machines").get(4).get("name").asText() + ":6703";
        world.answer = World.json("{\"v\": 1, \"decision_id\": \"d0\", \"topologies\": {\"" + topology.get("id").asText()
            + "\": {\"placement\": {\"" + executor.get(0) + "\": \"" + other + "\"}}}}");
        world.round(RequestCluster.of(request));
        assertTrue(world.rebalances.containsKey(topology.get("name").asText()));
        world.rebalances.clear();
    }

    private static JsonNode withPlacements(JsonNode request, RequestCluster storm) {
        JsonNode placed = request.deepCopy();
        for (JsonNode topology : placed.get("topologies")) {
            ((ObjectNode) topology).set("placement", Cases.JSON.valueToTree(storm.placement(topology.get("id").asText())));
        }
        return placed;
    }

    /** The tasks that are elsewhere, of topologies that have such tasks. */
    private static Map<String, Map<Integer, String>> changes(
            Map<String, Map<Integer, String>> before, Map<String, Map<Integer, String>> now) {
        assertEquals(before.keySet(), now.keySet());
        Map<String, Map<Integer, String>> changes = new TreeMap<>();
        now.forEach((topology, placed) -> {
            Map<Integer, String> moved = new TreeMap<>();
            Stream.concat(before.get(topology).keySet().stream(), placed.keySet().stream())
                .filter(task -> !Objects.equals(before.get(topology).get(task), placed.get(task)))
                .forEach(task -> moved.put(task, placed.get(task)));
            if (!moved.isEmpty()) {
                changes.put(topology, moved);
            }
        });
        return changes;
    }

    private static Map<String, Map<Integer, String>> placements(RequestCluster storm) {
        Map<String, Map<Integer, String>> placements = new TreeMap<>();
        storm.topologies().forEach(topology -> {
            Map<Integer, String> byTask = new TreeMap<>();
            storm.placement(topology.getId()).forEach((task, slot) -> byTask.put(Integer.parseInt(task), slot));
            placements.put(topology.getId(), byTask);
        });
        return placements;
    }
}
