package barograph.bridge;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Turns Storm's Topologies and Cluster into a request. */
final class RequestBuilder {
    /** Begins names of Storm's own components and streams; the second those of its checkpoints of state. */
    private static final List<String> SYSTEM = List.of("__", "$");
    private final MachineNames names;

    RequestBuilder(MachineNames names) {
        this.names = names;
    }

    /**
     * `underWay`: plans that are not carried out yet; `unplacedWhy`: what Storm's own scheduler said of those that it did
     * not place, by id; `now`: seconds since the epoch.
     */
    Request build(
            Topologies topologies, Cluster cluster, Collection<Plan> underWay, Map<String, String> unplacedWhy, double now) {
        names.learn(cluster);
        Map<String, Plan> plans = new TreeMap<>();
        underWay.forEach(plan -> plans.put(plan.topologyId(), plan));
        List<Request.Topology> all = new ArrayList<>();
        for (TopologyDetails topology : topologies.getTopologies()) {
            String id = topology.getId();
            all.add(topology(topology, cluster, Optional.ofNullable(plans.get(id)), unplacedWhy.get(id)));
        }
        all.sort(Comparator.comparing(Request.Topology::id));
        return new Request(Request.VERSION, now, machines(cluster), all, null);
    }

    private List<Request.Machine> machines(Cluster cluster) {
        Map<String, Request.Machine> machines = new TreeMap<>();
        for (SupervisorDetails supervisor : cluster.getSupervisors().values()) {
            List<Integer> ports = List.copyOf(new TreeSet<>(supervisor.getAllPorts()));
            boolean alive = !cluster.isBlackListed(supervisor.getId());
            machines.put(supervisor.getId(), new Request.Machine(supervisor.getHost(), supervisor.getId(), ports, alive));
        }
        missing(cluster).forEach((id, ports) ->
            machines.put(id, new Request.Machine(names.of(id), id, List.copyOf(ports), false)));
        return List.copyOf(machines.values());
    }

    /** Machines that assignments name and the cluster has lost, with the ports that were in use. */
    private static Map<String, TreeSet<Integer>> missing(Cluster cluster) {
        Map<String, TreeSet<Integer>> missing = new TreeMap<>();
        for (SchedulerAssignment assignment : cluster.getAssignments().values()) {
            for (WorkerSlot slot : assignment.getSlots()) {
                if (cluster.getSupervisorById(slot.getNodeId()) == null) {
                    missing.computeIfAbsent(slot.getNodeId(), id -> new TreeSet<>()).add(slot.getPort());
                }
            }
        }
        return missing;
    }

    private Request.Topology topology(TopologyDetails topology, Cluster cluster, Optional<Plan> plan, String unplacedWhy) {
        List<Request.Component> components = components(topology);
        Set<String> known = new TreeSet<>();
        components.forEach(component -> known.add(component.name()));
        Map<Integer, String> planned = new TreeMap<>();
        plan.ifPresent(found -> found.after().forEach((task, slot) -> planned.put(task, slot.toString())));
        return new Request.Topology(topology.getId(), topology.getName(), topology.getNumWorkers(), topology.getUpTime(),
            components, edges(topology.getTopology(), known), placement(topology, cluster), planned, plan.isPresent(),
            unplacedWhy, null);
    }

    private static List<Request.Component> components(TopologyDetails topology) {
        Map<Integer, Request.Component> byFirstTask = new TreeMap<>();
        topology.getComponentToExecutors().forEach((name, executors) -> {
            Request.Component component = component(name, kind(topology.getTopology(), name), executors);
            byFirstTask.put(component.tasks().get(0), component);
        });
        return List.copyOf(byFirstTask.values());
    }

    private static Request.Component component(String name, String kind, Collection<ExecutorDetails> executors) {
        List<List<Integer>> ranges = new ArrayList<>();
        List<Integer> tasks = new ArrayList<>();
        executors.stream().sorted(Comparator.comparingInt(ExecutorDetails::getStartTask)).forEach(executor -> {
            ranges.add(List.of(executor.getStartTask(), executor.getEndTask()));
            for (int task = executor.getStartTask(); task <= executor.getEndTask(); task++) {
                tasks.add(task);
            }
        });
        return new Request.Component(name, kind, tasks, ranges);
    }

    private static String kind(StormTopology topology, String name) {
        if (SYSTEM.stream().anyMatch(name::startsWith)) {
            return "system";
        }
        return topology.get_spouts().containsKey(name) ? "spout" : "bolt";
    }

    private static List<Request.Edge> edges(StormTopology topology, Set<String> known) {
        Map<String, ComponentCommon> commons = new TreeMap<>();
        topology.get_spouts().forEach((name, spout) -> commons.put(name, spout.get_common()));
        topology.get_bolts().forEach((name, bolt) -> commons.put(name, bolt.get_common()));
        List<Request.Edge> edges = new ArrayList<>();
        commons.forEach((target, common) -> common.get_inputs().forEach((input, grouping) -> {
            if (known.contains(target) && isOrdinary(input, known)) {
                edges.add(new Request.Edge(input.get_componentId(), input.get_streamId(), target, grouping(grouping)));
            }
        }));
        edges.sort(Request.Edge.ORDER);
        return edges;
    }

    private static boolean isOrdinary(GlobalStreamId input, Set<String> known) {
        return known.contains(input.get_componentId()) && SYSTEM.stream().noneMatch(input.get_streamId()::startsWith);
    }

    /** Storm's word for the grouping; a fields grouping on no fields is what it calls global. */
    private static String grouping(Grouping grouping) {
        if (grouping.is_set_fields() && grouping.get_fields().isEmpty()) {
            return "global";
        }
        return grouping.getSetField().getFieldName();
    }

    private Map<Integer, String> placement(TopologyDetails topology, Cluster cluster) {
        Map<Integer, String> placement = new TreeMap<>();
        SchedulerAssignment assignment = cluster.getAssignmentById(topology.getId());
        if (assignment != null) {
            assignment.getExecutorToSlot().forEach((executor, slot) -> {
                for (int task = executor.getStartTask(); task <= executor.getEndTask(); task++) {
                    placement.put(task, names.slot(slot).toString());
                }
            });
        }
        return placement;
    }
}
