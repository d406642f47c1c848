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
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What happens to a plan between the decision and the round of its rebalance. */
class RoundsTest {
    private static final String STAR = "star-1-1763712300";
    private static final String LINEAR = "linear-2-1763712301";

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
    void nimbusIsAskedToWaitForAsLongAsTheAnswerSays() {
        assertEquals(30, ask(30).waits.get("star"));
        assertEquals(30, NimbusCalls.options(Map.of(), 30).get_wait_secs());
        assertFalse(NimbusCalls.options(Map.of(), 30).is_set_num_executors());
    }

    @Test
    void withoutAWaitNimbusIsToldSo() {
        world.round(RequestCluster.of(request));
        assertEquals(0, world.waits.get("star"));
        assertTrue(NimbusCalls.options(Map.of("centre", 4), 0).is_set_wait_secs(), "else it waits the message timeout");
    }

    @Test
    void aPlanIsNotGivenUpWhileNimbusWaits() {
        ask(30);
        world.restart();
        world.nanos = 89_000_000_000L;
        world.round(RequestCluster.of(request));
        assertEquals(List.of(), world.reports);
        world.nanos = 91_000_000_000L;
        world.round(RequestCluster.of(request));
        assertFalse(world.reports.get(0).ok());
    }

    private World ask(int waitSeconds) {
        ((ObjectNode) world.answer).put("wait_s", waitSeconds);
        world.round(RequestCluster.of(request));
        world.answer = World.json(World.NOTHING);
        return world;
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
    void aReportThatGetsLostIsSaidAgainUntilItIsHeard() {
        world.round(RequestCluster.of(request));
        world.lostReports = 2;
        RequestCluster placed = world.rebalanceRound(request);
        assertEquals(List.of(), world.reports);
        world.round(placed);
        world.round(placed);
        world.round(placed);
        assertEquals(List.of(new Report("d17", STAR, 1763712345.0, true, "rebalanced")), world.reports);
    }

    @Test
    void aReportThatNobodyHearsIsGivenUp() {
        world.round(RequestCluster.of(request));
        world.lostReports = Reports.TRIES;
        RequestCluster placed = world.rebalanceRound(request);
        for (int i = 0; i < Reports.TRIES + 5; i++) {
            world.round(placed);
        }
        assertEquals(0, world.lostReports);
        assertEquals(List.of(), world.reports);
    }

    @Test
    void requestsSayWhichDecisionArrivedLast() {
        world.round(RequestCluster.of(request));
        world.round(RequestCluster.of(request));
        ((ObjectNode) request).putArray("topologies");
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        world.round(RequestCluster.of(request));
        assertEquals(Arrays.asList(null, "d17", "d17", null),
            world.requests.stream().map(Request::lastDecision).toList(), "the next run begins with d1 again");
    }

    @Test
    void anAnswerThatIsRefusedHasNotArrived() {
        ((ObjectNode) world.answer.get("topologies").get(STAR).get("executors")).put("centre", 99);
        world.round(RequestCluster.of(request));
        world.round(RequestCluster.of(request));
        assertNull(world.requests.get(1).lastDecision());
    }

    @Test
    void aNimbusThatTakesOverInARebalanceKnowsThePlan() {
        Map<String, String> before = RequestCluster.of(request).placement(STAR);
        world.round(RequestCluster.of(request));
        world.restart();
        Map<String, String> after = world.rebalanceRound(request).placement(STAR);
        assertEquals(List.of("m5:6700", "m5:6701"), List.of(after.get("2"), after.get("4")));
        after.keySet().removeAll(List.of("2", "4"));
        before.keySet().removeAll(List.of("2", "4"));
        assertEquals(before, after, "nobody else moves");
        assertEquals(List.of(new Report("d17", STAR, 1763712345.0, true, "rebalanced")), world.reports);
        assertEquals("d17", world.requests.get(1).lastDecision());
        world.restart();
        world.round(RequestCluster.of(request));
        assertTrue(world.requests.get(2).topology(STAR).orElseThrow().rebalancing(), "Storm may not have stored it");
    }

    @Test
    void aRebalanceThatTheLastNimbusHadNotBegunIsBegun() {
        world.lastRound(RequestCluster.of(request));
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        world.round(RequestCluster.of(request));
        assertEquals(Map.of(), world.rebalances, "it may be under way");
        world.round(RequestCluster.of(request));
        assertEquals(Map.of("star", Map.of("centre", 4)), world.rebalances);
        world.rebalanceRound(request);
        assertTrue(world.reports.get(0).ok());
    }

    @Test
    void aRebalanceThatStormIsStillInIsNotGivenUpBecauseItRefusesASecond() {
        world.lastRound(RequestCluster.of(request));
        world.answer = World.json(World.NOTHING);
        world.nimbusFails = new IllegalStateException("No transition for event: REBALANCE");
        for (int i = 0; i < 5; i++) {
            world.round(RequestCluster.of(request));
        }
        assertEquals(List.of(), world.reports);
        world.rebalances.put("star", Map.of("centre", 4));
        assertEquals("m5:6700", world.rebalanceRound(request).placement(STAR).get("2"));
        assertTrue(world.reports.get(0).ok());
    }

    @Test
    void aPlanThatTheLastNimbusCarriedOutIsOver() {
        world.round(RequestCluster.of(request));
        RequestCluster placed = world.rebalanceRound(request);
        world.restart();
        world.round(placed);
        assertEquals(List.of("rebalanced", "rebalanced before Nimbus restarted"),
            world.reports.stream().map(Report::message).toList());
        assertTrue(world.reports.get(1).ok());
        world.round(placed);
        assertFalse(world.requests.get(3).topology(STAR).orElseThrow().rebalancing());
        world.restart();
        world.round(placed);
        assertEquals(2, world.reports.size(), "nothing is left of it");
    }

    @Test
    void plansThatCannotBeReadAreNone() throws Exception {
        world.round(RequestCluster.of(request));
        Files.writeString(folder.resolve("plans.json"), "[{\"decisionId\": \"d1");
        world.restart();
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        assertFalse(world.requests.get(1).topology(STAR).orElseThrow().rebalancing());
    }

    @Test
    void aRebalanceWithoutAPlanMovesNothing() {
        Map<String, String> before = RequestCluster.of(request).placement(STAR);
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        assertEquals(before, world.round(RequestCluster.of(request, List.of(STAR))).placement(STAR));
        assertEquals(20, world.requests.get(1).topology(STAR).orElseThrow().placement().size(), "it is no submission");
    }

    @Test
    void onePlanThatFailsDoesNotKeepTheOthers() throws Exception {
        twoPlans("m5:6700", "m5:6701");
        JsonNode broken = request.deepCopy();
        ((ArrayNode) broken.get("topologies").get(1).get("components")).remove(0);
        world.answer = World.json(World.NOTHING);
        assertEquals("m5:6701", world.round(RequestCluster.of(broken, List.of(STAR))).placement(STAR).get("9"));
        assertEquals(Map.of(LINEAR, false, STAR, true),
            world.reports.stream().collect(Collectors.toMap(Report::topology, Report::ok)));
        assertTrue(Files.readString(events).contains("the bridge failed: java.lang.NullPointerException"));
    }

    @Test
    void aTopologyTakesTheSlotThatAnotherLeaves() {
        twoPlans("m1:6701", "m1:6700");
        assertEquals(Set.of("linear", "star"), world.rebalances.keySet());
        RequestCluster placed = rebalanceRoundOf(LINEAR);
        assertEquals("m1:6701", placed.placement(LINEAR).get("1"));
        assertEquals("m1:6700", placed.placement(STAR).get("9"), "in no round it has no slot");
        assertEquals(List.of(LINEAR), world.reports.stream().map(Report::topology).toList());
        assertEquals(placed.placement(STAR), rebalanceRoundOf(STAR).placement(STAR));
        assertEquals(List.of(true, true), world.reports.stream().map(Report::ok).toList());
    }

    @Test
    void twoTopologiesExchangeTheirSlots() {
        exchange();
        Map<String, String> before = RequestCluster.of(request).placement(STAR);
        assertEquals(Set.of("linear", "star"), world.rebalances.keySet());
        rebalanceRoundOf(LINEAR);
        RequestCluster placed = rebalanceRoundOf(STAR);
        assertEquals("m1:6701", placed.placement(LINEAR).get("31"));
        assertEquals("m3:6702", placed.placement(STAR).get("9"));
        assertEquals(32, placed.placement(LINEAR).size());
        Map<String, String> after = placed.placement(STAR);
        List.of("9", "10").forEach(task -> after.put(task, before.get(task)));
        assertEquals(before, after, "nobody else moves");
        assertEquals(Map.of(LINEAR, true, STAR, true),
            world.reports.stream().collect(Collectors.toMap(Report::topology, Report::ok)));
    }

    @Test
    void aTickBetweenTheDecisionAndItsRebalancesIsNoConflict() {
        exchange();
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        assertFalse(Files.exists(events), "what one still has and the other will have is the same slot");
        rebalanceRoundOf(LINEAR);
        assertEquals("m3:6702", rebalanceRoundOf(STAR).placement(STAR).get("9"));
        assertFalse(Files.exists(events));
    }

    @Test
    void aNimbusThatTakesOverInAnExchangeFinishesIt() {
        exchange();
        world.restart();
        world.rebalances.clear();
        world.answer = World.json(World.NOTHING);
        for (int i = 0; i < 3; i++) {
            world.round(RequestCluster.of(request));
        }
        assertEquals(Set.of("linear", "star"), world.rebalances.keySet());
        rebalanceRoundOf(LINEAR);
        assertEquals("m3:6702", rebalanceRoundOf(STAR).placement(STAR).get("9"));
        assertFalse(Files.exists(events));
        assertEquals(List.of(true, true), world.reports.stream().map(Report::ok).toList());
    }

    @Test
    void aNimbusThatTakesOverSaysTheNewestDecisionThatItKnows() {
        request = Cases.read(Cases.FOLDER.resolve("answers_two_topologies_one_changes.json")).get("request");
        for (String[] change : new String[][] {{"d9", LINEAR, moves("m5:6700", 1, 2)}, {"d10", STAR, moves("m5:6701", 9, 10)}}) {
            world.answer = World.json("{\"v\": 1, \"decision_id\": \"" + change[0] + "\", \"topologies\": {\"" + change[1]
                + "\": {\"placement\": " + change[2] + "}}}");
            world.round(RequestCluster.of(request));
        }
        world.restart();
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(request));
        assertEquals("d10", world.requests.get(2).lastDecision(), "its plan is the second by the topology's id");
    }

    @Test
    void halfAnExchangeLeavesNobodyWithoutASlot() {
        exchange();
        rebalanceRoundOf(LINEAR);
        ((ArrayNode) request.get("machines").get(2).get("ports")).remove(2);
        RequestCluster placed = rebalanceRoundOf(STAR);
        assertEquals("m1:6701", placed.placement(LINEAR).get("31"));
        assertEquals(20, placed.placement(STAR).size());
        assertFalse(placed.placement(STAR).containsValue("m1:6701"));
        assertEquals(Map.of(LINEAR, true, STAR, false),
            world.reports.stream().collect(Collectors.toMap(Report::topology, Report::ok)));
    }

    @Test
    void aSlotThatAChangeUnderWayNeedsIsNotGivenAway() throws Exception {
        twoPlans("m5:6700", "m5:6701");
        rebalanceRoundOf(STAR);
        assertEquals("m5:6700", planned(world.requests.get(1), LINEAR, 1));
        world.answer = World.json("{\"v\": 1, \"decision_id\": \"d18\", \"topologies\": {\"" + STAR + "\": {\"placement\": "
            + moves("m5:6700", 9, 10) + "}}}");
        world.round(RequestCluster.of(request));
        assertTrue(Files.readString(events).contains("m5:6700 would belong to linear and to star"), Files.readString(events));
    }

    @Test
    void aTopologyThatArrivesTakesTheSlotThatAnotherLeaves() {
        request = Cases.read(Cases.FOLDER.resolve("answers_two_topologies_one_changes.json")).get("request");
        ((ObjectNode) request.get("topologies").get(0)).putObject("placement");
        String everything = moves("m3:6702", IntStream.rangeClosed(1, 20).toArray());
        RequestCluster decided = decide(moves("m5:6700", 5, 9, 10, 15, 21, 25, 26, 31), everything);
        assertEquals(Map.of(), decided.placement(STAR), "linear is still there");
        RequestCluster placed = rebalanceRoundOf(LINEAR);
        assertEquals(Set.of("m3:6702"), Set.copyOf(placed.placement(STAR).values()));
        assertEquals(20, placed.placement(STAR).size());
        assertEquals(List.of(true, true), world.reports.stream().map(Report::ok).toList());
    }

    /** All that linear has in m3:6702, and star's only executor in m1:6701. */
    private void exchange() {
        request = Cases.read(Cases.FOLDER.resolve("answers_two_topologies_one_changes.json")).get("request");
        decide(moves("m1:6701", 5, 9, 10, 15, 21, 25, 26, 31), moves("m3:6702", 9, 10));
    }

    private RequestCluster decide(String linear, String star) {
        world.answer = World.json("{\"v\": 1, \"decision_id\": \"d17\", \"topologies\": {\"" + LINEAR + "\": {\"placement\": "
            + linear + "}, \"" + STAR + "\": {\"placement\": " + star + "}}}");
        return world.round(RequestCluster.of(request));
    }

    /** Nimbus rebalances one topology after the other; the next round begins with what this one has placed. */
    private RequestCluster rebalanceRoundOf(String id) {
        Map<String, Map<String, Integer>> all = Map.copyOf(world.rebalances);
        world.rebalances.keySet().removeIf(name -> !id.startsWith(name));
        RequestCluster placed = world.rebalanceRound(request);
        for (JsonNode topology : request.get("topologies")) {
            String each = topology.get("id").asText();
            if (each.equals(id)) {
                topology.get("components").forEach(component ->
                    World.recut((ObjectNode) component, all.get(topology.get("name").asText())));
            }
            ((ObjectNode) topology).set("placement", Cases.JSON.valueToTree(placed.placement(each)));
        }
        world.rebalances.putAll(all);
        return placed;
    }

    private static String planned(Request request, String id, int task) {
        return request.topology(id).orElseThrow().planned().get(task);
    }

    /** Executors of linear and of star that are to move there, in one decision. */
    private void twoPlans(String linear, String star) {
        request = Cases.read(Cases.FOLDER.resolve("answers_two_topologies_one_changes.json")).get("request");
        world.answer = World.json("{\"v\": 1, \"decision_id\": \"d17\", \"topologies\": {\"" + LINEAR + "\": {\"executors\": {\"bolt_1\": 5},"
            + "\"placement\": " + moves(linear, 1, 2) + "}, \"" + STAR + "\": {\"placement\": " + moves(star, 9, 10) + "}}}");
        world.round(RequestCluster.of(request));
    }

    private static String moves(String slot, int... tasks) {
        return Arrays.stream(tasks).mapToObj(task -> "\"" + task + "\": \"" + slot + "\"").collect(Collectors.joining(", ", "{", "}"));
    }

    @Test
    void inAFallbackWhatHasNoSlotJoinsTheWorkersThatAreThere() {
        ObjectNode placement = (ObjectNode) request.get("topologies").get(0).get("placement");
        placement.remove(List.of("3", "4"));
        ((ObjectNode) request.get("topologies").get(0)).put("workers", 4);
        world.serviceFails = new ServiceFailed("down", null);
        Map<String, String> after = world.round(RequestCluster.of(request)).placement(STAR);
        assertEquals(20, after.size());
        assertTrue(List.of("m1", "m2", "m3", "m4").contains(after.get("3").split(":")[0]), after.toString());
        ((ObjectNode) request.get("topologies").get(0)).put("workers", 6);
        Map<String, String> exact = world.round(RequestCluster.of(request)).placement(STAR);
        assertEquals(20, exact.size());
    }

    @Test
    void inAFallbackWithoutAFreeSlotToo() {
        ((ObjectNode) request.get("topologies").get(0).get("placement")).remove(List.of("3", "4"));
        ((ObjectNode) request.get("topologies").get(0)).put("workers", 8);
        ((ArrayNode) request.get("machines")).remove(4);
        request.get("machines").forEach(machine -> ((ArrayNode) machine.get("ports")).removeAll().add(6700).add(6701));
        ((ArrayNode) request.get("machines").get(2).get("ports")).remove(1);
        ((ArrayNode) request.get("machines").get(3).get("ports")).remove(1);
        world.serviceFails = new ServiceFailed("down", null);
        assertEquals(20, world.round(RequestCluster.of(request)).placement(STAR).size());
    }

    @Test
    void inAFallbackATopologyWithManyWorkersDoesNotKeepTheOthersFromTheirs() {
        request = Cases.read(Cases.FOLDER.resolve("answers_two_topologies_one_changes.json")).get("request");
        ((ObjectNode) request.get("topologies").get(0)).put("workers", 4);
        ((ObjectNode) request.get("topologies").get(0).get("placement")).remove(List.of("3", "4"));
        ObjectNode linear = (ObjectNode) request.get("topologies").get(1).get("placement");
        Set<String> left = new TreeSet<>();
        linear.forEach(slot -> left.add(slot.asText()));
        left.remove("m4:6702");
        List<String> lost = new ArrayList<>();
        linear.properties().stream().filter(entry -> entry.getValue().asText().equals("m4:6702")).forEach(entry -> lost.add(entry.getKey()));
        linear.remove(lost);
        world.serviceFails = new ServiceFailed("down", null);
        RequestCluster after = world.round(RequestCluster.of(request));
        assertEquals(20, after.placement(STAR).size());
        assertEquals(32, after.placement(LINEAR).size());
        assertFalse(left.contains(after.placement(LINEAR).get(lost.get(0))), "it gets the worker that it lacks");
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
