package barograph.bridge;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Puts executors into slots of Storm's Cluster. An executor goes to the slot of its first task. */
final class Placement {
    private static final Logger LOG = LoggerFactory.getLogger(Placement.class);

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
     * Places a whole topology as planned. What another topology leaves by its own plan, one of `plans`, is taken from it: it
     * waits without a slot for its own rebalance. Where a planned slot is not to be had nothing is moved: everything goes to
     * where it was, and what cannot is placed evenly. Returns why, or nothing if all went as planned.
     */
    static Optional<String> placePlanned(Cluster cluster, Topologies topologies, Plan plan, Collection<Plan> plans) {
        TopologyDetails topology = topologies.getById(plan.topologyId());
        cluster.unassign(plan.topologyId());
        Optional<Slot> gone = topology.getExecutors().stream()
            .map(executor -> plan.after().get(executor.getStartTask()))
            .filter(slot -> slot != null && MachineNames.usable(cluster, slot, plan.topologyId()).isEmpty())
            .filter(slot -> !isBeingLeft(cluster, slot, plans))
            .min(Comparator.comparing(Slot::toString));
        if (gone.isEmpty()) { // else nothing is taken from anybody
            plan.after().values().stream().distinct().filter(slot -> isBeingLeft(cluster, slot, plans))
                .forEach(slot -> MachineNames.offered(cluster, slot).ifPresent(cluster::freeSlot));
        }
        placeUnplaced(cluster, topology, gone.isPresent() ? plan.before() : plan.after());
        if (gone.isPresent()) {
            evenly(topologies, cluster);
        }
        return gone.map(slot -> (MachineNames.offered(cluster, slot).isPresent() ? "another topology is in slot " + slot
            : "slot " + slot + " was lost between decision and rebalance") + "; nothing was moved");
    }

    /** A planned slot in which a worker of another topology is that does not leave it by any of `plans`. */
    static Optional<Slot> heldByAnother(Cluster cluster, Plan plan, Collection<Plan> plans) {
        return plan.after().values().stream().distinct()
            .filter(slot -> MachineNames.offered(cluster, slot).isPresent())
            .filter(slot -> MachineNames.usable(cluster, slot, plan.topologyId()).isEmpty())
            .filter(slot -> !isBeingLeft(cluster, slot, plans))
            .min(Comparator.comparing(Slot::toString));
    }

    private static boolean isBeingLeft(Cluster cluster, Slot slot, Collection<Plan> plans) {
        return MachineNames.offered(cluster, slot).filter(found -> plans.stream().anyMatch(plan ->
            plan.leaves(slot) && cluster.getUsedSlotsByTopologyId(plan.topologyId()).contains(found))).isPresent();
    }

    /** Whether every executor is where the plan wants it. */
    static boolean isAsPlanned(Cluster cluster, TopologyDetails topology, Plan plan) {
        SchedulerAssignment assignment = cluster.getAssignmentById(plan.topologyId());
        return assignment != null && topology.getExecutors().stream().allMatch(executor -> {
            WorkerSlot slot = assignment.getExecutorToSlot().get(executor);
            return slot != null && cluster.getSupervisorById(slot.getNodeId()) != null
                && new Slot(cluster.getHost(slot.getNodeId()), slot.getPort()).equals(plan.after().get(executor.getStartTask()));
        });
    }

    /**
     * Places what has no slot as Storm's EvenScheduler does, in the workers that are missing, and where none is missing or can
     * be had, in those that the topology has; moves nothing. EvenScheduler throws where a topology has more workers than it was
     * submitted with, as a policy may give it.
     */
    static void evenly(Topologies topologies, Cluster cluster) {
        topologies.forEach(topology -> {
            if (cluster.getAssignedNumWorkers(topology) >= topology.getNumWorkers()) {
                placeUnplaced(cluster, topology, inOwnWorkers(cluster, topology));
            }
        });
        try {
            EvenScheduler.scheduleTopologiesEvenly(topologies, cluster);
        } catch (RuntimeException e) {
            LOG.error("EvenScheduler failed", e);
        }
        topologies.forEach(topology -> placeUnplaced(cluster, topology, inOwnWorkers(cluster, topology)));
    }

    private static Map<Integer, Slot> inOwnWorkers(Cluster cluster, TopologyDetails topology) {
        List<Slot> own = cluster.getUsedSlotsByTopologyId(topology.getId()).stream()
            .filter(slot -> cluster.getSupervisorById(slot.getNodeId()) != null)
            .map(slot -> new Slot(cluster.getHost(slot.getNodeId()), slot.getPort()))
            .sorted(Comparator.comparing(Slot::toString)).toList();
        Map<Integer, Slot> slots = new HashMap<>();
        List<ExecutorDetails> waiting = new ArrayList<>(cluster.getUnassignedExecutors(topology));
        waiting.sort(Comparator.comparingInt(ExecutorDetails::getStartTask));
        for (int i = 0; i < waiting.size() && !own.isEmpty(); i++) {
            slots.put(waiting.get(i).getStartTask(), own.get(i % own.size()));
        }
        return slots;
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
