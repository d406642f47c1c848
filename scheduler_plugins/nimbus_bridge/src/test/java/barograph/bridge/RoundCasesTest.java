package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * round_cases/*.json: a Storm as a request describes it, steps, and in `then` of a step what the bridge did. A round begins
 * with what the one before has placed. What the steps are is said in docs/contracts.md, "Rounds".
 */
class RoundCasesTest {
    @TempDir
    Path folder;
    private Path events;
    private World world;
    private ObjectNode storm;
    /** By topology name: executors of the rebalances that Nimbus has taken and not carried out. */
    private final Map<String, Map<String, Integer>> underWay = new TreeMap<>();
    private final ArrayNode asked = Cases.JSON.createArrayNode();
    private String refusal;
    private int reports;
    private int lines;

    static Stream<Path> cases() {
        return Cases.ofRounds().stream();
    }

    @ParameterizedTest
    @MethodSource("cases")
    void roundsGoAsTheCaseSays(Path file) throws Exception {
        JsonNode whole = Cases.read(file);
        events = folder.resolve("bridge.jsonl");
        world = new World(events, this::rebalance);
        storm = whole.get("request").deepCopy();
        whole.path("edits").forEach(this::edit);
        int number = 0;
        for (JsonNode step : whole.get("steps")) {
            JsonNode then = take(step);
            if (Cases.WRITE) {
                ((ObjectNode) step).remove("then");
                if (then != null) {
                    ((ObjectNode) step).set("then", then);
                }
            }
            assertEquals(step.get("then"), then, "step " + number++ + ": " + step.get("do"));
        }
        if (Cases.WRITE) {
            Cases.write(file, whole);
        }
    }

    /** `at`: a JSON pointer into the request; without `to` what is there is removed. */
    private void edit(JsonNode change) {
        String at = change.get("at").asText();
        int last = at.lastIndexOf('/');
        ObjectNode parent = (ObjectNode) storm.at(at.substring(0, last));
        if (change.has("to")) {
            parent.set(at.substring(last + 1), change.get("to"));
        } else {
            parent.remove(at.substring(last + 1));
        }
    }

    /** Returns what came of a round, null of any other step. */
    private JsonNode take(JsonNode step) throws IOException {
        switch (step.get("do").asText()) {
            case "round" -> {
                return round(step, List.of());
            }
            case "rebalance" -> {
                ObjectNode topology = topology(step);
                Map<String, Integer> executors = underWay.remove(topology.get("name").asText());
                Map<String, Map<Integer, String>> before = placements(RequestCluster.of(storm));
                recut(topology, executors == null ? Map.of() : executors);
                return round(step, List.of(topology.get("id").asText()), before);
            }
            case "between" -> {
                ObjectNode topology = topology(step);
                recut(topology, underWay.get(topology.get("name").asText()));
                return round(step, List.of());
            }
            case "by_hand" -> underWay.put(step.get("topology").asText(), Map.of());
            case "machine_down" -> machine(step).put("alive", false);
            case "machine_up" -> machine(step).put("alive", true);
            case "ports" -> machine(step).set("ports", step.get("ports"));
            case "executors_lost" -> step.get("tasks").forEach(task -> placement(topology(step)).remove(task.asText()));
            case "topology_gone" -> ((ArrayNode) storm.get("topologies")).remove(place(step));
            case "time" -> world.nanos += step.get("s").asLong() * 1_000_000_000L;
            case "nimbus_restarts" -> world.restart();
            default -> throw new IllegalArgumentException("no step is called " + step.get("do"));
        }
        return null;
    }

    private JsonNode round(JsonNode step, List<String> hidden) throws IOException {
        return round(step, hidden, placements(RequestCluster.of(storm)));
    }

    /** `before`: what the round is compared with. */
    private JsonNode round(JsonNode step, List<String> hidden, Map<String, Map<Integer, String>> before) throws IOException {
        world.answer = step.has("answer") ? step.get("answer") : World.json(World.NOTHING);
        world.serviceFails = step.has("service_fails") ? new ServiceFailed(step.get("service_fails").asText(), null) : null;
        world.lostReports = step.path("lost_reports").asInt(world.lostReports);
        refusal = step.path("refused").asText(null);
        RequestCluster placed = RequestCluster.of(storm, hidden);
        int requests = world.requests.size();
        if (step.path("nimbus_ends").asBoolean()) {
            world.lastRound(placed);
        } else {
            world.round(placed);
        }
        Map<String, Map<Integer, String>> after = placements(placed);
        storm.get("topologies").forEach(topology ->
            ((ObjectNode) topology).set("placement", Cases.JSON.valueToTree(after.get(topology.get("id").asText()))));
        return then(moves(before, after), world.requests.subList(requests, world.requests.size()));
    }

    private JsonNode then(JsonNode moved, List<Request> requests) throws IOException {
        ObjectNode then = Cases.JSON.createObjectNode();
        for (Request request : requests) {
            then.set("asked", asked(request));
        }
        setUnlessEmpty(then, "moved", moved);
        setUnlessEmpty(then, "rebalances", asked.deepCopy());
        asked.removeAll();
        setUnlessEmpty(then, "reports", inCaseTime(Cases.JSON.valueToTree(world.reports.subList(reports, world.reports.size()))));
        reports = world.reports.size();
        ArrayNode fresh = Cases.JSON.createArrayNode();
        List<String> all = Files.exists(events) ? Files.readAllLines(events) : List.of();
        all.subList(lines, all.size()).forEach(line -> fresh.add(World.json(line)));
        lines = all.size();
        setUnlessEmpty(then, "events", inCaseTime(fresh));
        return then;
    }

    /** What the request says beside what is placed where. `under_way`: tasks that a change will have elsewhere. */
    private static ObjectNode asked(Request request) {
        ObjectNode said = Cases.JSON.createObjectNode();
        if (request.lastDecision() != null) {
            said.put("last_decision", request.lastDecision());
        }
        ObjectNode changes = Cases.JSON.createObjectNode();
        ObjectNode unplaced = Cases.JSON.createObjectNode();
        for (Request.Topology topology : request.topologies()) {
            if (topology.rebalancing()) {
                changes.set(topology.id(), Cases.JSON.valueToTree(planned(topology)));
            }
            if (topology.unplacedWhy() != null) {
                unplaced.put(topology.id(), topology.unplacedWhy());
            }
        }
        setUnlessEmpty(said, "under_way", changes);
        setUnlessEmpty(said, "unplaced_why", unplaced);
        List<String> dead = request.machines().stream().filter(machine -> !machine.alive()).map(Request.Machine::name).toList();
        setUnlessEmpty(said, "not_alive", Cases.JSON.valueToTree(dead));
        return said;
    }

    private static Map<Integer, String> planned(Request.Topology topology) {
        Map<Integer, String> elsewhere = new TreeMap<>(topology.planned());
        topology.placement().forEach(elsewhere::remove);
        return elsewhere;
    }

    /** The tasks that are elsewhere, null for nowhere, of topologies that have such tasks. */
    private static JsonNode moves(Map<String, Map<Integer, String>> before, Map<String, Map<Integer, String>> now) {
        Map<String, Map<Integer, String>> moves = new TreeMap<>();
        now.forEach((topology, placed) -> {
            Map<Integer, String> moved = new TreeMap<>();
            TreeSet<Integer> tasks = new TreeSet<>(before.get(topology).keySet());
            tasks.addAll(placed.keySet());
            tasks.stream().filter(task -> !Objects.equals(before.get(topology).get(task), placed.get(task)))
                .forEach(task -> moved.put(task, placed.get(task)));
            if (!moved.isEmpty()) {
                moves.put(topology, moved);
            }
        });
        return Cases.JSON.valueToTree(moves);
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

    /** As Nimbus has it: one rebalance of a topology at a time. */
    private void rebalance(String name, Map<String, Integer> executors, int waitSeconds) throws Exception {
        ObjectNode call = asked.addObject().put("topology", name).put("wait_s", waitSeconds);
        call.set("executors", Cases.JSON.valueToTree(executors));
        String why = refusal != null || !underWay.containsKey(name) ? refusal
            : "No transition for event: REBALANCE, status: REBALANCING storm-id: " + topology(call).get("id").asText();
        if (why != null) {
            call.put("refused", why);
            throw new Refusal(why);
        }
        underWay.put(name, executors);
    }

    /** Executors that are cut otherwise than before have no slot. */
    private static void recut(ObjectNode topology, Map<String, Integer> executors) {
        TreeSet<String> before = new TreeSet<>();
        topology.get("components").forEach(component -> component.get("executors").forEach(range -> before.add(range.toString())));
        for (JsonNode component : topology.get("components")) {
            World.recut((ObjectNode) component, executors);
            for (JsonNode range : component.get("executors")) {
                for (int task = range.get(0).asInt(); !before.contains(range.toString()) && task <= range.get(1).asInt(); task++) {
                    placement(topology).remove(String.valueOf(task));
                }
            }
        }
    }

    private static ObjectNode placement(JsonNode topology) {
        return (ObjectNode) topology.get("placement");
    }

    private ObjectNode topology(JsonNode step) {
        return (ObjectNode) storm.get("topologies").get(place(step));
    }

    private int place(JsonNode step) {
        for (int i = 0; i < storm.get("topologies").size(); i++) {
            if (storm.get("topologies").get(i).get("name").equals(step.get("topology"))) {
                return i;
            }
        }
        throw new IllegalArgumentException("no topology is called " + step.get("topology"));
    }

    private ObjectNode machine(JsonNode step) {
        for (JsonNode machine : storm.get("machines")) {
            if (machine.get("name").equals(step.get("machine"))) {
                return (ObjectNode) machine;
            }
        }
        throw new IllegalArgumentException("no machine is called " + step.get("machine"));
    }

    private static JsonNode inCaseTime(ArrayNode said) {
        said.forEach(each -> ((ObjectNode) each).put("t", each.get("t").asDouble() - World.START_S));
        return said;
    }

    private static void setUnlessEmpty(ObjectNode parent, String name, JsonNode value) {
        if (!value.isEmpty()) {
            parent.set(name, value);
        }
    }

    /** In the words of the case only. */
    private static final class Refusal extends Exception {
        private static final long serialVersionUID = 1L;

        Refusal(String message) {
            super(message);
        }

        @Override
        public String toString() {
            return getMessage();
        }
    }
}
