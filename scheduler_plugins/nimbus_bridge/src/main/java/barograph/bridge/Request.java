package barograph.bridge;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** What POST /schedule asks, as docs/contracts.md has it. Placement is by task. */
record Request(int v, double t, List<Machine> machines, List<Topology> topologies,
               @JsonProperty("last_decision") String lastDecision) {
    /** Of the contract with the policy service, as VERSION in messages.py: requests and answers of another one are refused. */
    static final int VERSION = 2;

    record Machine(String name, @JsonProperty("supervisor_id") String supervisorId, List<Integer> ports, boolean alive) {}

    record Component(String name, String kind, List<Integer> tasks, List<List<Integer>> executors) {}

    record Edge(String source, String stream, String target, String grouping) {
        static final Comparator<Edge> ORDER =
            Comparator.comparing(Edge::source).thenComparing(Edge::stream).thenComparing(Edge::target);
    }

    /** `planned`: slot of each task once the change that is under way is carried out; empty where none is. */
    record Topology(String id, String name, int workers, @JsonProperty("uptime_s") int uptimeS, List<Component> components,
                    List<Edge> edges, Map<Integer, String> placement,
                    @JsonInclude(JsonInclude.Include.NON_EMPTY) Map<Integer, String> planned, boolean rebalancing,
                    @JsonProperty("unplaced_why") String unplacedWhy,
                    @JsonProperty("scheduler_error") @JsonInclude(JsonInclude.Include.NON_NULL) String schedulerError) {

        Topology {
            planned = planned == null ? Map.of() : planned;
        }

        Topology failedBy(String error) {
            return new Topology(id, name, workers, uptimeS, components, edges, placement, planned, rebalancing, unplacedWhy, error);
        }

        Optional<Component> component(String wanted) {
            return components.stream().filter(component -> component.name().equals(wanted)).findFirst();
        }

        boolean hasTask(int task) {
            return components.stream().anyMatch(component -> component.tasks().contains(task));
        }

        Map<Integer, Slot> slots() {
            Map<Integer, Slot> slots = new TreeMap<>();
            placement.forEach((task, slot) -> slots.put(task, Slot.parse(slot)));
            return slots;
        }
    }

    /** With what a foreign scheduler did wrong in the round before, by topology id. */
    Request failedBy(Map<String, String> errors) {
        return new Request(v, t, machines, topologies.stream().map(each -> each.failedBy(errors.get(each.id()))).toList(), lastDecision);
    }

    /** With the id of the newest decision that is here, null for none: one that is not was never made. */
    Request after(String decision) {
        return new Request(v, t, machines, topologies, decision);
    }

    Optional<Topology> topology(String id) {
        return topologies.stream().filter(topology -> topology.id().equals(id)).findFirst();
    }

    boolean offers(Slot slot) {
        return machines.stream().anyMatch(
            machine -> machine.alive() && machine.name().equals(slot.machine()) && machine.ports().contains(slot.port()));
    }
}
