package barograph.bridge;

import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Keeps out of Nimbus what would corrupt Storm: names that it does not have, and one slot for two topologies. Whether a policy may
 * do what it does is for the policy service to say (refusal.py).
 */
final class AnswerCheck {
    private AnswerCheck() {}

    static void check(Request request, Answer answer) throws InvalidAnswer {
        for (Map.Entry<String, Answer.Change> entry : answer.topologies().entrySet()) {
            Request.Topology topology = known(request, entry.getKey());
            checkExecutors(topology, entry.getValue());
            checkPlacement(request, topology, entry.getValue());
        }
        checkSlotsAreOfOneTopology(request, answer);
        checkScheduler(request, answer);
    }

    private static Request.Topology known(Request request, String id) throws InvalidAnswer {
        return request.topology(id).orElseThrow(
            () -> new InvalidAnswer("topology " + id + " is not in the request"));
    }

    private static void checkScheduler(Request request, Answer answer) throws InvalidAnswer {
        for (String id : answer.rebalance()) {
            known(request, id);
        }
        if (answer.scheduler() != null && !StormSchedulers.knows(answer.scheduler().name())) {
            throw new InvalidAnswer(
                "scheduler " + answer.scheduler().name() + " is not Storm's; known are " + StormSchedulers.names());
        }
    }

    private static void checkExecutors(Request.Topology topology, Answer.Change change) throws InvalidAnswer {
        for (Map.Entry<String, Integer> entry : change.executors().entrySet()) {
            Request.Component component = topology.component(entry.getKey()).orElseThrow(() -> new InvalidAnswer(topology.name() + " has no component " + entry.getKey()));
            int tasks = component.tasks().size();
            if (entry.getValue() < 1 || entry.getValue() > tasks) {
                throw new InvalidAnswer("executors of " + topology.name() + "'s "
                    + component.name() + " is " + entry.getValue() + "; allowed are 1 to " + tasks + ", the number of tasks");
            }
        }
    }

    private static void checkPlacement(Request request, Request.Topology topology, Answer.Change change)
        throws InvalidAnswer {
        for (Map.Entry<Integer, Slot> entry : change.placement().entrySet()) {
            if (!topology.hasTask(entry.getKey())) {
                throw new InvalidAnswer(topology.name() + " has no task " + entry.getKey());
            }
            if (!request.offers(entry.getValue())) {
                throw new InvalidAnswer("task " + entry.getKey() + " of " + topology.name() + " is to go to "
                    + entry.getValue() + ", which no living machine offers");
            }
        }
    }

    /**
     * Storm runs one topology in a slot. A topology that a change is under way for has its slots of before and of after. Only what
     * this answer gives is judged: while two exchange their slots, what one still has and the other will have is the same.
     */
    private static void checkSlotsAreOfOneTopology(Request request, Answer answer) throws InvalidAnswer {
        for (Request.Topology topology : request.topologies()) {
            Answer.Change change = answer.topologies().get(topology.id());
            Set<Slot> given = change == null || topology.rebalancing() ? Set.of() : new LinkedHashSet<>(change.placement().values());
            for (Request.Topology other : given.isEmpty() ? List.<Request.Topology>of() : request.topologies()) {
                Set<Slot> taken = other.id().equals(topology.id()) ? Set.of() : slotsAfterwards(other, answer);
                for (Slot slot : given) {
                    if (taken.contains(slot)) {
                        throw new InvalidAnswer(slot + " would belong to " + other.name() + " and to " + topology.name());
                    }
                }
            }
        }
    }

    private static Set<Slot> slotsAfterwards(Request.Topology topology, Answer answer) {
        Map<Integer, Slot> after = topology.slots();
        Answer.Change change = answer.topologies().get(topology.id());
        if (change != null && !topology.rebalancing()) {
            after.putAll(change.placement());
        }
        Set<Slot> slots = new HashSet<>(after.values());
        topology.planned().values().forEach(slot -> slots.add(Slot.parse(slot)));
        return slots;
    }
}
