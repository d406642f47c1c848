package barograph.bridge;

import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;

/**
 * Schedulers that place all: Storm's own and foreign ones, each made when it is first asked for and kept, one for a name and
 * what is laid over Nimbus' conf.
 */
final class StormSchedulers {
    private static final Map<String, Supplier<IScheduler>> KNOWN = new TreeMap<>(Map.of(
        "default", DefaultScheduler::new,
        "even", EvenScheduler::new,
        "resource_aware", ResourceAwareScheduler::new,
        "isolation", IsolationScheduler::new));

    private final Map<String, Object> conf;
    private final StormMetricsRegistry registry;
    private final Path foreignJars;
    private final Duration foreignLimit;
    private final Map<Answer.Scheduler, IScheduler> made = new HashMap<>();
    private final Map<Answer.Scheduler, ForeignScheduler> hosted = new HashMap<>();

    /** `conf`: Nimbus' own; `foreignLimit`: for one round of a foreign scheduler. */
    StormSchedulers(Map<String, Object> conf, StormMetricsRegistry registry, Path foreignJars, Duration foreignLimit) {
        this.conf = conf;
        this.registry = registry;
        this.foreignJars = foreignJars;
        this.foreignLimit = foreignLimit;
    }

    static boolean knows(String name) {
        return KNOWN.containsKey(name) || name.equals(Answer.Scheduler.FOREIGN);
    }

    static String names() {
        return String.join(", ", KNOWN.keySet());
    }

    /**
     * Lets that scheduler do all placing of the round. Returns, by topology id, why executors are left without a slot:
     * empty where all have one. Throws SchedulerFailed, the cluster being as it was.
     */
    Map<String, String> place(Answer.Scheduler wanted, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        // Storm reads what executors need from the topology's conf, and IsolationScheduler leaves hosts on the black list:
        // both happen to a copy.
        Topologies confed = laidOver(wanted, topologies);
        Cluster copy = new Cluster(cluster, confed);
        copy.setStatusMap(Map.of()); // what another scheduler said in a round before is not this one's reason
        if (wanted.foreign()) {
            placeByForeign(wanted, confed, copy, cluster);
        } else {
            placeByStorm(wanted, confed, copy);
        }
        cluster.updateFrom(copy);
        return unplaced(wanted, topologies, cluster);
    }

    void cleanup() {
        made.values().forEach(IScheduler::cleanup);
        made.clear();
        hosted.values().forEach(ForeignScheduler::close);
        hosted.clear();
    }

    /** One that failed is not asked again as it is: the next run gets it fresh. */
    private void placeByStorm(Answer.Scheduler wanted, Topologies confed, Cluster copy) throws SchedulerFailed {
        try {
            made(wanted).schedule(confed, copy);
        } catch (RuntimeException e) {
            made.remove(wanted);
            throw SchedulerFailed.threw(wanted.called() + " with conf " + wanted.conf(), e);
        }
    }

    /** Likewise. */
    private void placeByForeign(Answer.Scheduler wanted, Topologies confed, Cluster copy, Cluster before) throws SchedulerFailed {
        try {
            hosted(wanted).schedule(confed, copy);
            requireSlotsThatAre(wanted, copy, before);
        } catch (SchedulerFailed e) {
            ForeignScheduler failed = hosted.remove(wanted);
            if (failed != null) {
                failed.close();
            }
            throw e;
        }
    }

    private ForeignScheduler hosted(Answer.Scheduler wanted) throws SchedulerFailed {
        ForeignScheduler known = hosted.get(wanted);
        if (known == null) {
            ForeignClass type = ForeignClass.load(ForeignClass.jarsIn(foreignJars), wanted.className());
            Map<String, Object> files = Map.of("barograph.files", foreignJars.resolve("files").toString());
            known = new ForeignScheduler(type, laidOver(wanted, files), registry, foreignLimit);
            hosted.put(wanted, known);
        }
        return known;
    }

    /** Nimbus dies of an assignment to a machine or port that it does not know. */
    private static void requireSlotsThatAre(Answer.Scheduler wanted, Cluster after, Cluster before) throws SchedulerFailed {
        for (Map.Entry<String, SchedulerAssignment> entry : after.getAssignments().entrySet()) {
            SchedulerAssignment earlier = before.getAssignmentById(entry.getKey());
            Set<WorkerSlot> given = new HashSet<>(entry.getValue().getSlots());
            given.removeAll(earlier == null ? Set.of() : Set.copyOf(earlier.getSlots()));
            for (WorkerSlot slot : given) {
                SupervisorDetails supervisor = after.getSupervisorById(slot.getNodeId());
                if (supervisor == null || !supervisor.getAllPorts().contains(slot.getPort())) {
                    throw new SchedulerFailed(wanted.called() + " placed executors of " + entry.getKey() + " on " + slot
                        + ", which no supervisor offers");
                }
            }
        }
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
                String who = wanted.foreign() ? wanted.className() : wanted.name();
                why.put(topology.getId(), who + " left " + left + " of " + topology.getExecutors().size()
                    + " executors of " + topology.getName() + " without a slot: " + said.strip());
            }
        }
        return why;
    }
}
