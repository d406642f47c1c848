package barograph.bridge;

import barograph.bridge.InvalidAnswer.Kind;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Whether an answer fits the request: a name that Storm does not have must not reach Nimbus. */
final class AnswerCheck {
    static final int LONGEST_WAIT_SECONDS = 600;

    private AnswerCheck() {}

    static void check(Request request, Answer answer) throws InvalidAnswer {
        for (Map.Entry<String, Answer.Change> entry : answer.topologies().entrySet()) {
            Request.Topology topology = known(request, entry.getKey());
            checkExecutors(topology, entry.getValue());
            checkPlacement(request, topology, entry.getValue());
        }
        if (answer.decisionId() == null && answer.changesSomething()) {
            throw new InvalidAnswer(Kind.MALFORMED, "something changes, but decision_id is null");
        }
        checkSlotsAreOfOneTopology(request, answer);
        checkReleased(request, answer);
        checkScheduler(request, answer);
        if (answer.waitSeconds() < 0 || answer.waitSeconds() > LONGEST_WAIT_SECONDS) {
            throw new InvalidAnswer(
                Kind.WAIT_OUT_OF_RANGE, "wait_s is " + answer.waitSeconds() + "; allowed are 0 to " + LONGEST_WAIT_SECONDS);
        }
    }

    private static Request.Topology known(Request request, String id) throws InvalidAnswer {
        return request.topology(id).orElseThrow(
            () -> new InvalidAnswer(Kind.UNKNOWN_TOPOLOGY, "topology " + id + " is not in the request"));
    }

    /** A machine that may leave is left by everything that runs once the decision is applied. */
    private static void checkReleased(Request request, Answer answer) throws InvalidAnswer {
        Set<String> released = new HashSet<>(answer.release());
        for (String machine : answer.release()) {
            if (request.machines().stream().noneMatch(known -> known.name().equals(machine))) {
                throw new InvalidAnswer(Kind.UNKNOWN_MACHINE, "machine " + machine + ", to be released, is not in the request");
            }
        }
        for (Request.Topology topology : released.isEmpty() ? List.<Request.Topology>of() : request.topologies()) {
            for (Map.Entry<Integer, Slot> entry : slotsAfter(topology, answer).entrySet()) {
                if (released.contains(entry.getValue().machine())) {
                    throw new InvalidAnswer(Kind.MACHINE_IN_USE, "machine " + entry.getValue().machine() + " is to be released, but "
                        + topology.name() + "'s executor of task " + entry.getKey() + " would be on it");
                }
            }
        }
    }

    /** Slot of each executor, by its first task, as Nimbus cuts executors once the answer is applied. */
    private static Map<Integer, Slot> slotsAfter(Request.Topology topology, Answer answer) {
        Answer.Change change = answer.topologies().getOrDefault(topology.id(), new Answer.Change(Map.of(), Map.of()));
        Plan plan = Plan.of(answer, topology, change);
        Map<Integer, Slot> slots = new HashMap<>();
        for (Request.Component component : topology.components()) {
            Integer number = plan.executors().get(component.name());
            List<List<Integer>> ranges = number == null ? component.executors() : Plan.ranges(component.tasks(), number);
            for (List<Integer> range : ranges) {
                if (plan.after().containsKey(range.get(0))) {
                    slots.put(range.get(0), plan.after().get(range.get(0)));
                }
            }
        }
        return slots;
    }

    private static void checkScheduler(Request request, Answer answer) throws InvalidAnswer {
        for (String id : answer.rebalance()) {
            known(request, id);
        }
        if (answer.scheduler() == null && !answer.rebalance().isEmpty()) {
            throw new InvalidAnswer(Kind.NO_SCHEDULER, "topologies to place anew, but no scheduler of Storm's that does");
        }
        if (answer.scheduler() != null && answer.scheduler().foreign() && answer.scheduler().className() == null) {
            throw new InvalidAnswer(Kind.UNKNOWN_SCHEDULER, "a foreign scheduler without its class");
        }
        if (answer.scheduler() != null && !StormSchedulers.knows(answer.scheduler().name())) {
            throw new InvalidAnswer(Kind.UNKNOWN_SCHEDULER,
                "scheduler " + answer.scheduler().name() + " is not Storm's; known are " + StormSchedulers.names());
        }
        if (answer.scheduler() != null && !(answer.topologies().isEmpty() && answer.release().isEmpty())) {
            throw new InvalidAnswer(Kind.TWO_PLACERS, answer.scheduler().called()
                + " is to place, and the answer places or releases too; only one of them can");
        }
    }

    private static void checkExecutors(Request.Topology topology, Answer.Change change) throws InvalidAnswer {
        for (Map.Entry<String, Integer> entry : change.executors().entrySet()) {
            Request.Component component = topology.component(entry.getKey()).orElseThrow(() -> new InvalidAnswer(
                Kind.UNKNOWN_COMPONENT, topology.name() + " has no component " + entry.getKey()));
            int tasks = component.tasks().size();
            if (entry.getValue() < 1 || entry.getValue() > tasks) {
                throw new InvalidAnswer(Kind.EXECUTORS_OUT_OF_RANGE, "executors of " + topology.name() + "'s "
                    + component.name() + " is " + entry.getValue() + "; allowed are 1 to " + tasks + ", the number of tasks");
            }
        }
    }

    private static void checkPlacement(Request request, Request.Topology topology, Answer.Change change)
        throws InvalidAnswer {
        for (Map.Entry<Integer, Slot> entry : change.placement().entrySet()) {
            if (!topology.hasTask(entry.getKey())) {
                throw new InvalidAnswer(Kind.UNKNOWN_TASK, topology.name() + " has no task " + entry.getKey());
            }
            if (!request.offers(entry.getValue())) {
                throw new InvalidAnswer(Kind.UNKNOWN_SLOT, "task " + entry.getKey() + " of " + topology.name() + " is to go to "
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
                        throw new InvalidAnswer(Kind.SLOT_TAKEN, slot + " would belong to " + other.name() + " and to " + topology.name());
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
