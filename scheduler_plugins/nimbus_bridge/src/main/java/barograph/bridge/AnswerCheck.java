package barograph.bridge;

import barograph.bridge.InvalidAnswer.Kind;
import java.util.HashMap;
import java.util.Map;

/** Whether an answer fits the request: a name that Storm does not have must not reach Nimbus. */
final class AnswerCheck {
    private AnswerCheck() {}

    static void check(Request request, Answer answer) throws InvalidAnswer {
        for (Map.Entry<String, Answer.Change> entry : answer.topologies().entrySet()) {
            Request.Topology topology = request.topology(entry.getKey()).orElseThrow(
                () -> new InvalidAnswer(Kind.UNKNOWN_TOPOLOGY, "topology " + entry.getKey() + " is not in the request"));
            if (answer.decisionId() == null) {
                throw new InvalidAnswer(Kind.MALFORMED, "topologies change, but decision_id is null");
            }
            checkExecutors(topology, entry.getValue());
            checkPlacement(request, topology, entry.getValue());
        }
        checkSlotsAreOfOneTopology(request, answer);
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

    /** Storm runs one topology in a slot. */
    private static void checkSlotsAreOfOneTopology(Request request, Answer answer) throws InvalidAnswer {
        Map<Slot, String> owners = new HashMap<>();
        for (Request.Topology topology : request.topologies()) {
            Map<Integer, Slot> after = topology.slots();
            Answer.Change change = answer.topologies().get(topology.id());
            if (change != null) {
                after.putAll(change.placement());
            }
            for (Slot slot : after.values()) {
                String other = owners.putIfAbsent(slot, topology.name());
                if (other != null && !other.equals(topology.name())) {
                    throw new InvalidAnswer(Kind.SLOT_TAKEN, slot + " would belong to " + other + " and to " + topology.name());
                }
            }
        }
    }
}
