package barograph.bridge;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.utils.Utils;

/**
 * A change to a placed topology, remembered from the decision to the scheduling round of the rebalance: Nimbus hides
 * the topology's own assignment in that round.
 *
 * @param executors of the components whose number changes
 * @param before slot of each task once what had none is placed at once
 * @param after slot of each task as decided
 * @param scheduler one of Storm's own that is to place instead of `after`, or null
 * @param waitSeconds that Nimbus waits before the rebalance
 */
record Plan(String decisionId, String topologyId, String topologyName, Map<String, Integer> executors,
            Map<Integer, Slot> before, Map<Integer, Slot> after, Answer.Scheduler scheduler, int waitSeconds) {

    /** True if Storm has something to rebalance: an executor's range or slot differs. */
    boolean changesSomething(Request.Topology topology) {
        return !executors.isEmpty() || !executorSlots(topology, before).equals(executorSlots(topology, after));
    }

    /** True if the topology was in that slot and nothing of it will be. */
    boolean leaves(Slot slot) {
        return scheduler == null && before.containsValue(slot) && !after.containsValue(slot);
    }

    static Plan of(Answer answer, Request.Topology topology, Answer.Change change) {
        Map<String, Integer> executors = new TreeMap<>(change.executors());
        executors.entrySet().removeIf(entry ->
            topology.component(entry.getKey()).orElseThrow().executors().size() == entry.getValue());
        Map<Integer, Slot> before = placedAtOnce(topology, change.placement());
        Map<Integer, Slot> after = new TreeMap<>(before);
        after.putAll(change.placement());
        return new Plan(
            answer.decisionId(), topology.id(), topology.name(), executors, before, after, null, answer.waitSeconds());
    }

    /** Everything is for the answer's scheduler to place anew. */
    static Plan anew(Answer answer, Request.Topology topology) {
        return new Plan(answer.decisionId(), topology.id(), topology.name(), Map.of(), topology.slots(), Map.of(),
            answer.scheduler(), answer.waitSeconds());
    }

    /** Executors that had no slot have the one of their first task, all of their tasks with it. */
    private static Map<Integer, Slot> placedAtOnce(Request.Topology topology, Map<Integer, Slot> slots) {
        Map<Integer, Slot> placed = topology.slots();
        topology.components().forEach(component -> component.executors().forEach(range -> {
            Slot slot = slots.get(range.get(0));
            for (int task = range.get(0); slot != null && task <= range.get(1); task++) {
                placed.putIfAbsent(task, slot);
            }
        }));
        return placed;
    }

    /** The (first, last) tasks of each executor as Nimbus will cut them. */
    static List<List<Integer>> ranges(List<Integer> tasks, int executors) {
        List<List<Integer>> ranges = new ArrayList<>();
        for (List<Integer> part : Utils.partitionFixed(executors, tasks)) {
            ranges.add(List.of(part.get(0), part.get(part.size() - 1)));
        }
        return ranges;
    }

    /** An executor goes to the slot of its first task, whatever is said of the others. */
    private static Map<Integer, Slot> executorSlots(Request.Topology topology, Map<Integer, Slot> slots) {
        Map<Integer, Slot> byFirstTask = new TreeMap<>();
        topology.components().forEach(component -> component.executors().forEach(range -> {
            if (slots.containsKey(range.get(0))) {
                byFirstTask.put(range.get(0), slots.get(range.get(0)));
            }
        }));
        return byFirstTask;
    }
}
