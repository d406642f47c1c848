package barograph.bridge;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Puts executors into slots of Storm's Cluster. An executor goes to the slot of its first task. */
final class Placement {
    private Placement() {}

    /** Places what has no slot; what has one stays. Executors for which `slots` names none stay unplaced. */
    static void placeUnplaced(Cluster cluster, TopologyDetails topology, Map<Integer, Slot> slots) {
        bySlot(cluster, topology.getId(), cluster.getUnassignedExecutors(topology), slots).forEach((slot, executors) -> {
            // Storm refuses to add to an occupied slot: that worker is free for a moment and gets both.
            executors.addAll(executorsIn(cluster, topology.getId(), slot));
            cluster.freeSlot(slot);
            assign(cluster, topology.getId(), slot, executors);
        });
    }

    /**
     * Places a whole topology as planned. Where a planned slot is no longer usable nothing is moved: everything goes to
     * where it was, and what cannot is placed evenly. Returns why, or nothing if all went as planned.
     */
    static Optional<String> placePlanned(Cluster cluster, Topologies topologies, Plan plan) {
        TopologyDetails topology = topologies.getById(plan.topologyId());
        cluster.unassign(plan.topologyId());
        Optional<Slot> gone = topology.getExecutors().stream()
            .map(executor -> plan.after().get(executor.getStartTask()))
            .filter(slot -> slot != null && MachineNames.usable(cluster, slot, plan.topologyId()).isEmpty())
            .min(Comparator.comparing(Slot::toString));
        placeUnplaced(cluster, topology, gone.isPresent() ? plan.before() : plan.after());
        if (gone.isPresent()) {
            evenly(topologies, cluster);
        }
        return gone.map(slot -> "slot " + slot + " was lost between decision and rebalance; nothing was moved");
    }

    /** Places what has no slot as Storm's EvenScheduler does, in the workers that are missing; moves nothing. */
    static void evenly(Topologies topologies, Cluster cluster) {
        EvenScheduler.scheduleTopologiesEvenly(topologies, cluster);
    }

    private static Map<WorkerSlot, List<ExecutorDetails>> bySlot(
            Cluster cluster, String topologyId, Collection<ExecutorDetails> executors, Map<Integer, Slot> slots) {
        Map<WorkerSlot, List<ExecutorDetails>> bySlot = new LinkedHashMap<>();
        executors.stream().sorted(Comparator.comparingInt(ExecutorDetails::getStartTask)).forEach(executor ->
            Optional.ofNullable(slots.get(executor.getStartTask()))
                .flatMap(slot -> MachineNames.usable(cluster, slot, topologyId))
                .ifPresent(slot -> bySlot.computeIfAbsent(slot, s -> new ArrayList<>()).add(executor)));
        return bySlot;
    }

    private static Collection<ExecutorDetails> executorsIn(Cluster cluster, String topologyId, WorkerSlot slot) {
        SchedulerAssignment assignment = cluster.getAssignmentById(topologyId);
        return assignment == null ? List.of() : assignment.getSlotToExecutors().getOrDefault(slot, List.of());
    }

    private static void assign(Cluster cluster, String topologyId, WorkerSlot slot, List<ExecutorDetails> executors) {
        executors.sort(Comparator.comparingInt(ExecutorDetails::getStartTask));
        cluster.assign(slot, topologyId, executors);
    }
}
