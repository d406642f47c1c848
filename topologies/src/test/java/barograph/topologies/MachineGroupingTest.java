package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.daemon.GrouperFactory;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.NodeInfo;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.tuple.Fields;
import org.junit.jupiter.api.Test;

/** In the place of a worker stands what Storm gives a grouping in one: where tasks are, and the names of nodes, exchanged at any time. */
class MachineGroupingTest {
    private static final Path CASES = Path.of("..", "tests", "contract", "hash_ring.json");
    private static final int FIRST = 3;
    private static final List<Integer> TARGETS = IntStream.range(FIRST, FIRST + 64).boxed().toList();
    /** Of those that most tests place. */
    private static final int TASKS = 24;

    private final AtomicReference<Map<Integer, NodeInfo>> places = new AtomicReference<>(Map.of());
    private final AtomicReference<Map<String, String>> names = new AtomicReference<>(Map.of());

    private MachineGrouping grouping(String rule) {
        MachineGrouping grouping = new MachineGrouping(rule, "id", 200);
        Map<String, Map<String, Fields>> fields = Map.of("extract", Map.of("default", Line.FIELDS));
        grouping.prepare(
            new WorkerTopologyContext(
                new StormTopology(), new HashMap<>(), Map.of(), Map.of(), fields, "t-1", "", null, 6700, List.of(), Map.of(), Map.of(),
                places, "", names),
            new GlobalStreamId("extract", "default"), TARGETS);
        return grouping;
    }

    /** Tasks are dealt to machines in turn. */
    private void place(List<String> machines, int tasks) {
        placeTasks(TARGETS.subList(0, tasks).stream().collect(Collectors.toMap(task -> task, task -> machines.get((task - FIRST) % machines.size()))));
    }

    private void placeTasks(Map<Integer, String> machines) {
        names.set(machines.values().stream().distinct().collect(Collectors.toMap(name -> "id-of-" + name, name -> name)));
        places.set(machines.entrySet().stream().collect(
            Collectors.toMap(Map.Entry::getKey, each -> new NodeInfo("id-of-" + each.getValue(), Set.of(6700L)))));
    }

    private static int task(MachineGrouping grouping, Object id) {
        List<Integer> chosen = grouping.chooseTasks(1, List.of("text", id, 1, "m1", 1.0));
        assertEquals(1, chosen.size());
        return chosen.get(0);
    }

    private String machine(int task) {
        return names.get().get(places.get().get(task).get_node());
    }

    @Test
    void machinesOfKeysAreThoseOfPython() throws Exception {
        for (JsonNode each : new ObjectMapper().readTree(CASES.toFile())) {
            List<String> machines = IntStream.rangeClosed(1, each.get("machines").asInt()).mapToObj(number -> "m" + number).toList();
            place(machines, TARGETS.size());
            MachineGrouping mod = grouping("mod");
            MachineGrouping ring = grouping("ring");
            for (JsonNode key : each.get("key, mod, ring")) {
                Object value = key.get(0).isInt() ? (Object) key.get(0).asInt() : key.get(0).asText();
                assertEquals(key.get(1).asText(), machine(task(mod, value)), "mod of " + value);
                assertEquals(key.get(2).asText(), machine(task(ring, value)), "ring of " + value);
            }
        }
    }

    @Test
    void fieldsAreStormsOwnWhereverTasksAre() {
        GrouperFactory.FieldsGrouper storms = new GrouperFactory.FieldsGrouper(Line.FIELDS, Grouping.fields(List.of("id")));
        storms.prepare(null, null, TARGETS);
        MachineGrouping ours = grouping("fields");
        for (List<String> machines : List.of(List.of("m1"), List.of("m1", "m2"))) {
            place(machines, TASKS);
            for (int id = -100; id < 100; id++) {
                List<Object> values = List.of("text", id, 1, "m1", 1.0);
                assertEquals(storms.chooseTasks(1, values), ours.chooseTasks(1, values));
            }
        }
    }

    @Test
    void aRunningGroupingFollowsAMachineThatJoins() {
        MachineGrouping ring = grouping("ring");
        place(List.of("m1", "m2", "m3"), TASKS);
        Map<Integer, Integer> before = tasks(ring);
        Map<Integer, String> moved = TARGETS.subList(0, TASKS).stream().collect(Collectors.toMap(task -> task, this::machine));
        Map<Integer, String> old = Map.copyOf(moved);
        Map<String, Integer> left = new TreeMap<>(Map.of("m1", 2, "m2", 2, "m3", 2)); // of the eight of each
        moved.replaceAll((task, name) -> left.merge(name, -1, Integer::sum) >= 0 ? "m4" : name);
        placeTasks(moved);
        Map<Integer, Integer> after = tasks(ring);
        int changed = 0;
        for (int id : before.keySet()) {
            String was = old.get(before.get(id));
            if (machine(after.get(id)).equals("m4")) {
                changed++;
            } else {
                assertEquals(was, machine(after.get(id)), "only keys that go to the new machine change theirs");
                if (!moved.get(before.get(id)).equals("m4")) {
                    assertEquals(before.get(id), after.get(id), "and its task only where that has left");
                }
            }
        }
        assertEquals(before.size() / 4.0, changed, before.size() * 0.03);
    }

    @Test
    void keysSpreadEvenlyOverMachinesAndTasks() {
        for (String rule : List.of("mod", "ring")) {
            place(List.of("m1", "m2", "m3", "m4"), TASKS);
            int[] counts = new int[TASKS];
            tasks(grouping(rule)).values().forEach(task -> counts[task - FIRST]++);
            for (int count : counts) {
                assertEquals(5000.0 / TASKS, count, 5000.0 / TASKS * 0.3, rule); // five standard deviations, and the ring's own 5 %
            }
        }
    }

    private static Map<Integer, Integer> tasks(MachineGrouping grouping) {
        return IntStream.range(0, 5000).boxed().collect(Collectors.toMap(id -> id, id -> task(grouping, id)));
    }

    @Test
    void tasksWithoutAPlaceAndNodesWithoutANameAreWaitedFor() {
        MachineGrouping mod = grouping("mod");
        int byFields = task(grouping("fields"), 5);
        assertEquals(byFields, task(mod, 5), "nobody has said where tasks are");
        place(List.of("m1", "m2"), TASKS);
        Map<String, String> known = names.getAndSet(Map.of());
        assertEquals(byFields, task(mod, 5), "names come a moment later");
        names.set(known);
        String there = machine(task(mod, 5));
        assertEquals("m1", there, "36 mod 2");
        placeTasks(Map.of(FIRST + 1, "m2"));
        assertEquals(FIRST + 1, task(mod, 5), "the only one that is placed");
        places.set(Map.of());
        assertEquals(FIRST + 1, task(mod, 5), "the topology ends");
    }

    @Test
    void whatCannotBeIsRefused() {
        assertEquals("grouping is 'hash'; allowed are fields, mod, ring", TopNTest.refusal(() -> new MachineGrouping("hash", "id", 200)));
        assertEquals("ring_points is 0; it must be 1 or above", TopNTest.refusal(() -> new MachineGrouping("ring", "id", 0)));
        assertTrue(TopNTest.refusal(() -> new MachineGrouping("mod", "topic", 1).prepare(
            new WorkerTopologyContext(
                new StormTopology(), new HashMap<>(), Map.of(), Map.of(), Map.of("extract", Map.of("default", Line.FIELDS)), "t-1", "", null,
                6700, List.of(), Map.of(), Map.of(), places, "", names),
            new GlobalStreamId("extract", "default"), TARGETS)).contains("topic"));
    }
}
