package org.example;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Gives each executor that has no slot to a free slot of the machine that has the fewest executors. */
public class EmptiestMachineScheduler implements IScheduler {
    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) {
        // It needs no settings.
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        for (TopologyDetails topology : cluster.needsSchedulingTopologies()) {
            place(topology, cluster);
        }
    }

    @Override
    public Map<String, Map<String, Double>> config() {
        return Map.of();
    }

    private static void place(TopologyDetails topology, Cluster cluster) {
        List<WorkerSlot> slots = emptiestFirst(cluster);
        int workers = Math.min(topology.getNumWorkers() - cluster.getAssignedNumWorkers(topology), slots.size());
        if (workers <= 0) {
            return;
        }
        Map<WorkerSlot, List<ExecutorDetails>> executors = new HashMap<>();
        int next = 0;
        for (ExecutorDetails executor : cluster.getUnassignedExecutors(topology)) {
            executors.computeIfAbsent(slots.get(next++ % workers), slot -> new ArrayList<>()).add(executor);
        }
        executors.forEach((slot, of) -> cluster.assign(slot, topology.getId(), of));
    }

    private static List<WorkerSlot> emptiestFirst(Cluster cluster) {
        Map<String, Integer> load = new HashMap<>();
        cluster.getAssignments().values().forEach(assignment -> assignment.getSlotToExecutors()
                .forEach((slot, of) -> load.merge(slot.getNodeId(), of.size(), Integer::sum)));
        List<WorkerSlot> slots = new ArrayList<>(cluster.getAvailableSlots());
        slots.sort(Comparator.comparing((WorkerSlot slot) -> load.getOrDefault(slot.getNodeId(), 0))
                .thenComparing(WorkerSlot::getPort)
                .thenComparing(WorkerSlot::getNodeId));
        return slots;
    }
}
