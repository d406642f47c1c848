package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.scheduler.EvenScheduler;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Rounds in which one of Storm's own schedulers places; more of `even` and `default` is in round_cases. */
class StormSchedulersTest {
    private static final String STAR = "star-1-1763712300";
    private static final String THREE = "{\"isolation.scheduler.machines\": {\"star\": 3}}";
    private static final String SMALL = "{\"topology.component.cpu.pcore.percent\": 2, \"topology.component.resources.onheap.memory.mb\": 32}";

    @TempDir
    Path folder;
    private Path events;
    private World world;
    private JsonNode placed;
    private JsonNode fresh;

    @BeforeEach
    void read() {
        events = folder.resolve("bridge.jsonl");
        world = new World(events);
        placed = Cases.request("star_runs");
        fresh = placed.deepCopy();
        ((ObjectNode) fresh.get("topologies").get(0)).putObject("placement");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "default; {}", "even; {}", "resource_aware; {}", "resource_aware; " + SMALL,
        "isolation; " + THREE})
    void aSubmissionIsPlacedWholly(String name, String conf) {
        answer(name, conf, "");
        Map<String, String> after = world.round(RequestCluster.of(fresh)).placement(STAR);
        assertEquals(20, after.size());
        assertEquals(after, world.round(RequestCluster.of(with(after))).placement(STAR), "a placed topology is left alone");
        assertFalse(Files.exists(events));
    }

    @Test
    void isolationKeepsToTheMachinesItWasGiven() {
        answer("isolation", THREE, "");
        assertEquals(3, machines(world.round(RequestCluster.of(fresh)).placement(STAR)).size());
        answer("isolation", "{\"isolation.scheduler.machines\": {\"star\": 2}}", "");
        assertEquals(2, machines(world.round(RequestCluster.of(fresh)).placement(STAR)).size());
    }

    @Test
    void whatExecutorsNeedIsTakenFromTheAnswer() {
        answer("resource_aware", SMALL, "");
        assertEquals(1, machines(world.round(RequestCluster.of(fresh)).placement(STAR)).size());
        answer("resource_aware", "{\"topology.component.cpu.pcore.percent\": 200}", "");
        assertEquals(5, machines(world.round(RequestCluster.of(fresh)).placement(STAR)).size());
    }

    @Test
    void oneRunAfterAnotherMayUseOtherSchedulers() {
        answer("even", "{}", "");
        Map<String, String> even = world.round(RequestCluster.of(fresh)).placement(STAR);
        RequestCluster storm = RequestCluster.of(fresh);
        new EvenScheduler().schedule(storm.topologies(), storm.cluster());
        assertEquals(storm.placement(STAR), even);
        answer("resource_aware", SMALL, "");
        assertEquals(1, machines(world.round(RequestCluster.of(fresh)).placement(STAR)).size());
        answer("even", "{}", "");
        assertEquals(even, world.round(RequestCluster.of(fresh)).placement(STAR));
    }

    @Test
    void whyThereIsNoRoomIsAnEventOnceAndInTheNextRequest() throws Exception {
        answer("resource_aware", "{\"topology.component.cpu.pcore.percent\": 300}", "");
        assertEquals(Map.of(), world.round(RequestCluster.of(fresh)).placement(STAR));
        world.round(RequestCluster.of(fresh));
        List<String> lines = Files.readAllLines(events);
        assertEquals(1, lines.size(), "said once, not every tick");
        JsonNode event = World.json(lines.get(0));
        assertEquals("unplaced", event.get("kind").asText());
        assertEquals(STAR, event.get("topology").asText());
        String why = world.requests.get(1).topology(STAR).orElseThrow().unplacedWhy();
        assertEquals(event.get("reason").asText(), why);
        assertTrue(why.startsWith("resource_aware left 10 of 10 executors of star without a slot: Not enough resources"), why);
        answer("even", "{}", "");
        world.round(RequestCluster.of(fresh));
        world.round(RequestCluster.of(fresh));
        assertNull(world.requests.get(3).topology(STAR).orElseThrow().unplacedWhy());
    }

    @Test
    void whatStormGivesNoReasonForIsAnEventToo() throws Exception {
        answer("isolation", "{\"isolation.scheduler.machines\": {\"star\": 6}}", "");
        RequestCluster storm = RequestCluster.of(fresh);
        storm.cluster().setStatus(STAR, "Running - by another scheduler");
        world.round(storm);
        assertEquals("isolation left 1 of 10 executors of star without a slot: Storm does not say why; "
            + "15 slots are free on 5 machines", reason());
    }

    @ParameterizedTest
    @CsvSource({"default", "even", "resource_aware"})
    void executorsOfALostMachineArePlacedAndTheOthersStay(String name) {
        answer(name, "{}", "");
        Map<String, String> before = new TreeMap<>(RequestCluster.of(placed).placement(STAR));
        before.values().removeIf(slot -> slot.startsWith("m1:"));
        ((ArrayNode) placed.get("machines")).remove(0);
        Map<String, String> after = world.round(RequestCluster.of(with(before))).placement(STAR);
        assertEquals(20, after.size());
        after.keySet().retainAll(before.keySet());
        assertEquals(before, after);
    }

    @Test
    void aRebalanceWithoutRoomIsReportedWithStormsReason() {
        answer("resource_aware", "{\"topology.component.cpu.pcore.percent\": 300}", STAR);
        world.round(RequestCluster.of(placed));
        assertEquals(Map.of(), world.rebalanceRound(placed).placement(STAR));
        assertFalse(world.reports.get(0).ok());
        assertTrue(world.reports.get(0).message().contains("Not enough resources"), world.reports.get(0).message());
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {"resource_aware; {}", "isolation; " + THREE})
    void aMachineThatDiesBeforeTheRoundOfTheRebalanceGetsNothing(String name, String conf) {
        answer(name, conf, STAR);
        world.round(RequestCluster.of(placed));
        ((ArrayNode) placed.get("machines")).remove(0);
        Map<String, String> after = world.rebalanceRound(placed).placement(STAR);
        assertEquals(20, after.size());
        assertFalse(machines(after).contains("m1"));
        assertTrue(world.reports.get(0).ok());
    }

    @Test
    void aSchedulerOfStormsThatThrowsPlacesNothingAndTheNextRequestSaysWhy() throws Exception {
        answer("isolation", "{}", "");
        assertEquals(Map.of(), world.round(RequestCluster.of(fresh)).placement(STAR));
        assertEquals("scheduler_failed", World.json(Files.readAllLines(events).get(0)).get("kind").asText());
        assertTrue(reason().startsWith("Storm's isolation scheduler with conf {} threw "), reason());
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(fresh));
        assertEquals(reason(), world.requests.get(1).topology(STAR).orElseThrow().schedulerError());
    }

    @Test
    void isolationThrowsWhereThereAreMoreWorkersThanExecutors() throws Exception {
        JsonNode tooMany = fresh.deepCopy();
        ((ObjectNode) tooMany.get("topologies").get(0)).put("workers", 12);
        answer("isolation", "{\"isolation.scheduler.machines\": {\"star\": 4}}", "");
        assertEquals(Map.of(), world.round(RequestCluster.of(tooMany)).placement(STAR));
        assertTrue(reason().contains("NoSuchElementException"), reason());
    }

    @Test
    void aSchedulerThatThrowsInTheRoundOfTheRebalanceMovesNothing() throws Exception {
        answer("isolation", THREE, STAR);
        Map<String, String> before = world.round(RequestCluster.of(fresh)).placement(STAR);
        world.rebalanceRound(with(before));
        answer("isolation", THREE, STAR);
        world.round(RequestCluster.of(with(before)));
        JsonNode withoutWorkers = with(before);
        ((ObjectNode) withoutWorkers.get("topologies").get(0)).put("workers", 0);
        assertEquals(before, world.rebalanceRound(withoutWorkers).placement(STAR));
        assertFalse(world.reports.get(1).ok());
        assertTrue(world.reports.get(1).message().endsWith("nothing was moved"), world.reports.get(1).message());
        assertTrue(reason().contains("isolation"), reason());
    }

    private void answer(String name, String conf, String rebalance) {
        String topologies = rebalance.isEmpty() ? "" : "\"" + rebalance + "\"";
        world.answer = World.json("{\"v\": 2, \"decision_id\": " + (rebalance.isEmpty() ? "null" : "\"d17\"")
            + ", \"policy\": \"storm\", \"reason\": \"\", \"topologies\": {}, \"scheduler\": {\"name\": \"" + name
            + "\", \"conf\": " + conf + "}, \"rebalance\": [" + topologies + "]}");
    }

    private JsonNode with(Map<String, String> placement) {
        JsonNode request = placed.deepCopy();
        ((ObjectNode) request.get("topologies").get(0)).set("placement", Cases.JSON.valueToTree(placement));
        return request;
    }

    private String reason() throws Exception {
        return World.json(Files.readAllLines(events).get(0)).get("reason").asText();
    }

    private static TreeSet<String> machines(Map<String, String> placement) {
        TreeSet<String> machines = new TreeSet<>();
        placement.values().forEach(slot -> machines.add(Slot.parse(slot).machine()));
        return machines;
    }
}
