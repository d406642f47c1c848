package barograph.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.daemon.nimbus.Nimbus.StandaloneINimbus;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.WorkerResources;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignmentImpl;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.apache.storm.utils.Utils;

/** Storm's own Topologies and Cluster as a request describes them: RequestBuilder backwards. */
record RequestCluster(Topologies topologies, Cluster cluster, Map<String, String> names) {
    /** As Storm's defaults have it. */
    private static final Map<String, Double> CAPACITY = Map.of("supervisor.memory.capacity.mb", 4096.0, "supervisor.cpu.capacity", 400.0);

    static RequestCluster of(JsonNode request) {
        return of(request, List.of());
    }

    /** `hidden`: topologies whose assignment Nimbus hides, as in the round of a rebalance. */
    static RequestCluster of(JsonNode request, List<String> hidden) {
        Map<String, SupervisorDetails> supervisors = new HashMap<>();
        Map<String, String> names = new HashMap<>();
        for (JsonNode machine : request.get("machines")) {
            names.put(machine.get("supervisor_id").asText(), machine.get("name").asText());
            if (machine.path("alive").asBoolean(true)) {
                supervisors.put(machine.get("supervisor_id").asText(), supervisor(machine));
            }
        }
        Map<String, TopologyDetails> topologies = new HashMap<>();
        Map<String, SchedulerAssignmentImpl> assignments = new HashMap<>();
        for (JsonNode topology : request.get("topologies")) {
            TopologyDetails details = details(topology);
            topologies.put(details.getId(), details);
            if (!hidden.contains(details.getId()) && !topology.get("placement").isEmpty()) {
                assignments.put(details.getId(), assignment(request, topology, details));
            }
        }
        Topologies all = new Topologies(topologies);
        ResourceMetrics metrics = new ResourceMetrics(new StormMetricsRegistry());
        Cluster cluster = new Cluster(new StandaloneINimbus(), metrics, supervisors, assignments, all, conf());
        return new RequestCluster(all, cluster, names);
    }

    /** Slot of each placed task, as in a request, also on a machine that the cluster has lost. */
    Map<String, String> placement(String topologyId) {
        Map<String, String> placement = new HashMap<>();
        if (cluster.getAssignmentById(topologyId) != null) {
            cluster.getAssignmentById(topologyId).getExecutorToSlot().forEach((executor, slot) -> {
                for (int task = executor.getStartTask(); task <= executor.getEndTask(); task++) {
                    placement.put(String.valueOf(task), names.get(slot.getNodeId()) + ":" + slot.getPort());
                }
            });
        }
        return placement;
    }

    private static Map<String, Object> conf() {
        return Utils.readDefaultConfig();
    }

    private static SupervisorDetails supervisor(JsonNode machine) {
        List<Integer> ports = new ArrayList<>();
        machine.get("ports").forEach(port -> ports.add(port.asInt()));
        String id = machine.get("supervisor_id").asText();
        return new SupervisorDetails(id, machine.get("name").asText(), null, ports, CAPACITY);
    }

    private static TopologyDetails details(JsonNode topology) {
        Map<String, Object> conf = conf();
        conf.put("topology.name", topology.get("name").asText());
        Map<ExecutorDetails, String> executors = new HashMap<>();
        for (JsonNode component : topology.get("components")) {
            for (JsonNode range : component.get("executors")) {
                executors.put(new ExecutorDetails(range.get(0).asInt(), range.get(1).asInt()), component.get("name").asText());
            }
        }
        int launched = (int) (System.currentTimeMillis() / 1000 - topology.get("uptime_s").asInt());
        return new TopologyDetails(topology.get("id").asText(), conf, stormTopology(topology), topology.get("workers").asInt(),
            executors, launched, "storm");
    }

    private static StormTopology stormTopology(JsonNode topology) {
        StormTopology storm = new StormTopology(new HashMap<>(), new HashMap<>(), new HashMap<>());
        for (JsonNode component : topology.get("components")) {
            String name = component.get("name").asText();
            ComponentObject object = ComponentObject.serialized_java(ByteBuffer.allocate(0));
            ComponentCommon common = new ComponentCommon(inputs(topology, name), new HashMap<>());
            common.set_json_conf("{\"topology.tasks\": " + component.get("tasks").size() + "}");
            common.set_parallelism_hint(component.get("executors").size());
            if (component.get("kind").asText().equals("spout")) {
                storm.put_to_spouts(name, new SpoutSpec(object, common));
            } else if (component.get("kind").asText().equals("bolt")) {
                storm.put_to_bolts(name, new Bolt(object, common));
            }
        }
        return storm;
    }

    private static Map<GlobalStreamId, Grouping> inputs(JsonNode topology, String target) {
        Map<GlobalStreamId, Grouping> inputs = new HashMap<>();
        for (JsonNode edge : topology.get("edges")) {
            if (edge.get("target").asText().equals(target)) {
                Grouping grouping = switch (edge.get("grouping").asText()) {
                    case "shuffle" -> Grouping.shuffle(new NullStruct());
                    case "fields" -> Grouping.fields(List.of("key"));
                    case "all" -> Grouping.all(new NullStruct());
                    default -> throw new IllegalArgumentException("grouping " + edge.get("grouping"));
                };
                inputs.put(new GlobalStreamId(edge.get("source").asText(), edge.get("stream").asText()), grouping);
            }
        }
        return inputs;
    }

    private static SchedulerAssignmentImpl assignment(JsonNode request, JsonNode topology, TopologyDetails details) {
        Map<ExecutorDetails, WorkerSlot> slots = new HashMap<>();
        Map<WorkerSlot, WorkerResources> resources = new HashMap<>();
        for (ExecutorDetails executor : details.getExecutors()) {
            JsonNode slot = topology.get("placement").get(String.valueOf(executor.getStartTask()));
            if (slot != null) {
                String[] parts = slot.asText().split(":");
                slots.put(executor, new WorkerSlot(supervisorId(request, parts[0]), Integer.parseInt(parts[1])));
                resources.put(slots.get(executor), new WorkerResources());
            }
        }
        return new SchedulerAssignmentImpl(details.getId(), slots, resources, Map.of());
    }

    private static String supervisorId(JsonNode request, String machine) {
        for (JsonNode candidate : request.get("machines")) {
            if (candidate.get("name").asText().equals(machine)) {
                return candidate.get("supervisor_id").asText();
            }
        }
        throw new IllegalArgumentException("placement names " + machine + ", which is no machine of the case");
    }
}
