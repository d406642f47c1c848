package barograph.bridge;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;

/** Storm's own schedulers, each made when it is first asked for and kept: one for a name and what is laid over Nimbus' conf. */
final class StormSchedulers {
    private static final Map<String, Supplier<IScheduler>> KNOWN = new TreeMap<>(Map.of(
        "default", DefaultScheduler::new,
        "even", EvenScheduler::new,
        "resource_aware", ResourceAwareScheduler::new,
        "isolation", IsolationScheduler::new));

    private final Map<String, Object> conf;
    private final StormMetricsRegistry registry;
    private final Map<Answer.Scheduler, IScheduler> made = new HashMap<>();

    /** `conf`: Nimbus' own. */
    StormSchedulers(Map<String, Object> conf, StormMetricsRegistry registry) {
        this.conf = conf;
        this.registry = registry;
    }

    static boolean knows(String name) {
        return KNOWN.containsKey(name);
    }

    static String names() {
        return String.join(", ", KNOWN.keySet());
    }

    /**
     * Lets that scheduler do all placing of the round. Returns, by topology id, why executors are left without a slot:
     * empty where all have one. Throws SchedulerFailed, the cluster being as it was, where the scheduler threw.
     */
    Map<String, String> place(Answer.Scheduler wanted, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        // Storm reads what executors need from the topology's conf, and IsolationScheduler leaves hosts on the black list:
        // both happen to a copy.
        Topologies confed = laidOver(wanted, topologies);
        Cluster copy = new Cluster(cluster, confed);
        copy.setStatusMap(Map.of()); // what another scheduler said in a round before is not this one's reason
        try {
            made(wanted).schedule(confed, copy);
            cluster.updateFrom(copy);
        } catch (RuntimeException e) {
            throw new SchedulerFailed("Storm's " + wanted.name() + " scheduler with conf " + wanted.conf() + " failed: " + e, e);
        }
        return unplaced(wanted, topologies, cluster);
    }

    void cleanup() {
        made.values().forEach(IScheduler::cleanup);
        made.clear();
    }

    private IScheduler made(Answer.Scheduler wanted) {
        IScheduler known = made.get(wanted);
        if (known == null) {
            known = KNOWN.get(wanted.name()).get();
            known.prepare(laidOver(wanted, Map.of()), registry);
            made.put(wanted, known);
        }
        return known;
    }

    private Topologies laidOver(Answer.Scheduler wanted, Topologies topologies) {
        Map<String, TopologyDetails> confed = new HashMap<>();
        for (TopologyDetails topology : topologies.getTopologies()) {
            confed.put(topology.getId(), new TopologyDetails(topology.getId(), laidOver(wanted, topology.getConf()),
                topology.getTopology(), topology.getNumWorkers(), topology.getExecutorToComponent(), topology.getLaunchTime(),
                topology.getTopologySubmitter()));
        }
        return new Topologies(confed);
    }

    private Map<String, Object> laidOver(Answer.Scheduler wanted, Map<String, Object> topologyConf) {
        Map<String, Object> merged = new HashMap<>(conf);
        merged.putAll(topologyConf);
        merged.putAll(wanted.conf());
        return merged;
    }

    private static Map<String, String> unplaced(Answer.Scheduler wanted, Topologies topologies, Cluster cluster) {
        Map<String, String> why = new TreeMap<>();
        for (TopologyDetails topology : topologies.getTopologies()) {
            int left = cluster.getUnassignedExecutors(topology).size();
            if (left > 0) {
                String said = Optional.ofNullable(cluster.getStatus(topology.getId())).orElseGet(() -> "Storm does not say why; "
                    + cluster.getAvailableSlots().size() + " slots are free on " + cluster.getSupervisors().size() + " machines");
                why.put(topology.getId(), wanted.name() + " left " + left + " of " + topology.getExecutors().size()
                    + " executors of " + topology.getName() + " without a slot: " + said.strip());
            }
        }
        return why;
    }
}
