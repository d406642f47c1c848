package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What happens to a plan between the decision and the round of its rebalance. */
class RoundsTest {
    private static final String STAR = "star-1-1763712300";

    @TempDir
    Path folder;
    private Path events;
    private World world;
    private JsonNode request;

    @BeforeEach
    void decided() {
        events = folder.resolve("bridge.jsonl");
        world = new World(events);
        JsonNode whole = Cases.read(Cases.FOLDER.resolve("answers_more_executors_of_one_component.json"));
        request = whole.get("request");
        world.answer = whole.get("answer");
    }

    @Test
    void nothingMovesBeforeTheRoundOfTheRebalance() {
        Map<String, String> before = RequestCluster.of(request).placement(STAR);
        assertEquals(before, world.round(RequestCluster.of(request)).placement(STAR));
        assertEquals(Map.of("star", Map.of("centre", 4)), world.rebalances);
        assertEquals(List.of(), world.reports);
        world.rebalanceRound(request);
        assertEquals(List.of(new Report("d17", STAR, 1763712345.0, true, "rebalanced")), world.reports);
    }

    @Test
    void requestsSayThatAPlanIsUnderWay() {
        world.round(RequestCluster.of(request));
        assertFalse(world.requests.get(0).topology(STAR).orElseThrow().rebalancing());
        world.round(RequestCluster.of(request));
        assertTrue(world.requests.get(1).topology(STAR).orElseThrow().rebalancing());
        world.rebalanceRound(request);
        assertFalse(world.requests.get(2).topology(STAR).orElseThrow().rebalancing());
        assertEquals("m5:6700", world.requests.get(2).topology(STAR).orElseThrow().placement().get(2));
    }

    @Test
    void workersThatTheAnswerDoesNotTouchKeepTheirExecutors() {
        Map<String, String> before = RequestCluster.of(request).placement(STAR);
        world.round(RequestCluster.of(request));
        Map<String, String> after = world.rebalanceRound(request).placement(STAR);
        after.keySet().removeAll(List.of("2", "4"));
        before.keySet().removeAll(List.of("2", "4"));
        assertEquals(before, after);
    }

    @Test
    void aRebalanceThatNimbusRefusesIsGivenUp() {
        world.nimbusFails = new IllegalStateException("no leader");
        world.round(RequestCluster.of(request));
        Report report = world.reports.get(0);
        assertFalse(report.ok());
        assertTrue(report.message().contains("no leader"), report.message());
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        assertFalse(world.requests.get(1).topology(STAR).orElseThrow().rebalancing());
    }

    @Test
    void aMachineThatDiesInBetweenLeavesEverythingWhereItWas() {
        world.round(RequestCluster.of(request));
        ((ArrayNode) request.get("machines")).remove(4);
        Map<String, String> after = world.rebalanceRound(request).placement(STAR);
        assertEquals(RequestCluster.of(request).placement(STAR), after);
        assertFalse(world.reports.get(0).ok());
        assertTrue(world.reports.get(0).message().contains("m5:6700"), world.reports.get(0).message());
    }

    @Test
    void anAbortedPlanIsForgottenAndTheNextDecisionCarriedOut() {
        JsonNode again = world.answer.deepCopy();
        world.round(RequestCluster.of(request));
        JsonNode machines = request.get("machines").deepCopy();
        ((ArrayNode) request.get("machines")).remove(4);
        Map<String, String> aborted = world.rebalanceRound(request).placement(STAR);
        world.rebalances.clear();
        ((ObjectNode) request).set("machines", machines);
        assertEquals(aborted, world.round(RequestCluster.of(request)).placement(STAR), "nothing of the plan is left");
        assertFalse(world.requests.get(2).topology(STAR).orElseThrow().rebalancing());
        world.answer = ((ObjectNode) again).put("decision_id", "d18");
        world.round(RequestCluster.of(request));
        assertEquals("m5:6700", world.rebalanceRound(request).placement(STAR).get("2"));
        assertEquals(List.of(false, true), world.reports.stream().map(Report::ok).toList());
        assertEquals("d18", world.reports.get(1).decisionId());
    }

    @Test
    void executorsOfAMachineThatDiesInBetweenAreNotLost() {
        world.round(RequestCluster.of(request));
        ((ArrayNode) request.get("machines")).remove(0);
        ((ArrayNode) request.get("machines")).remove(3);
        Map<String, String> after = world.rebalanceRound(request).placement(STAR);
        assertEquals(20, after.size());
        assertTrue(after.values().stream().noneMatch(slot -> slot.startsWith("m1:") || slot.startsWith("m5:")));
        assertEquals("m2:6700", after.get("3"));
    }

    @Test
    void anOrdinaryTickInBetweenFollowsThePlanAndKeepsIt() {
        world.round(RequestCluster.of(request));
        JsonNode changed = request.deepCopy();
        changed.get("topologies").get(0).get("components")
            .forEach(component -> World.recut((ObjectNode) component, Map.of("centre", 4)));
        for (String task : List.of("1", "2", "3", "4")) {
            ((ObjectNode) changed.get("topologies").get(0).get("placement")).remove(task);
        }
        world.answer = World.json(World.NOTHING);
        Map<String, String> between = world.round(RequestCluster.of(changed)).placement(STAR);
        assertEquals("m5:6701", between.get("4"));
        assertEquals(List.of(), world.reports);
        assertEquals(between, world.rebalanceRound(request).placement(STAR));
        assertTrue(world.reports.get(0).ok());
    }

    @Test
    void aPlanWhoseRoundNeverComesIsGivenUp() {
        world.round(RequestCluster.of(request));
        world.answer = World.json(World.NOTHING);
        world.nanos = 61_000_000_000L;
        world.round(RequestCluster.of(request));
        assertFalse(world.reports.get(0).ok());
        assertFalse(world.requests.get(1).topology(STAR).orElseThrow().rebalancing());
    }

    @Test
    void aPlanEndsWithItsTopology() {
        world.round(RequestCluster.of(request));
        ((ObjectNode) request).putArray("topologies");
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        assertEquals("the topology is gone", world.reports.get(0).message());
    }

    @Test
    void withoutAnAnswerNothingMovesAndTheReasonIsAnEvent() throws Exception {
        world.serviceFails = new ServiceFailed("schedule: no answer within 2.0 s", null);
        Map<String, String> before = RequestCluster.of(request).placement(STAR);
        assertEquals(before, world.round(RequestCluster.of(request)).placement(STAR));
        JsonNode event = World.json(Files.readString(events));
        assertEquals("fallback", event.get("kind").asText());
        assertEquals("schedule: no answer within 2.0 s", event.get("reason").asText());
        assertEquals(1763712345.0, event.get("t").asDouble());
    }

    @Test
    void withoutAnAnswerTheRebalanceUnderWayIsCarriedOut() {
        world.round(RequestCluster.of(request));
        world.serviceFails = new ServiceFailed("down", null);
        assertEquals("m5:6700", world.rebalanceRound(request).placement(STAR).get("2"));
    }

    @Test
    void withoutTopologiesThereIsNoRunToSpoil() {
        ((ObjectNode) request).putArray("topologies");
        world.serviceFails = new ServiceFailed("down", null);
        world.round(RequestCluster.of(request));
        assertFalse(Files.exists(events));
    }

    @Test
    void twoSupervisorsOfOneNameAreAFallbackThatSaysSo() throws Exception {
        ((ObjectNode) request.get("machines").get(4)).put("name", "m1");
        world.round(RequestCluster.of(request));
        assertTrue(Files.readString(events).contains("storm.local.hostname"));
    }
}
