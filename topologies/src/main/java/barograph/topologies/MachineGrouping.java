package barograph.topologies;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.NodeInfo;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.task.WorkerTopologyContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Groups by one field over the machines that have tasks of the target. {@code mod}: by hash(key) mod N of them, in the order of their
 * names (Wu 2015, eq. 6). {@code ring}: by consistent hashing. {@code fields}: as Storm does, by hash(key) mod the number of tasks,
 * wherever they are.
 *
 * <p>Inside a machine a key goes to the task that has the highest hash with it, so it changes its task only when it changes its machine
 * or that task leaves. A worker that goes on learns of other places within {@code task.refresh.poll.secs}; until all have, two of them
 * may send a key to different machines.
 */
public final class MachineGrouping implements CustomStreamGrouping {
    private static final Logger LOG = LoggerFactory.getLogger(MachineGrouping.class);
    /** m2 before m10. */
    private static final Comparator<String> IN_ORDER = Comparator.comparingInt(String::length).thenComparing(Comparator.naturalOrder());
    private static final List<String> RULES = List.of("fields", "mod", "ring");

    private final String rule;
    private final String field;
    private final int ringPoints;
    private transient int index;
    private transient List<Integer> targets;
    private transient AtomicReference<Map<Integer, NodeInfo>> places;
    private transient AtomicReference<Map<String, String>> names;
    private transient Map<Integer, NodeInfo> seen;
    private transient SortedMap<String, List<Integer>> machines;
    private transient List<String> order;
    private transient HashRing ring;

    /** {@code ringPoints}: of each machine. */
    public MachineGrouping(String rule, String field, int ringPoints) {
        if (!RULES.contains(rule)) {
            throw new IllegalArgumentException("grouping is '" + rule + "'; allowed are fields, mod, ring");
        }
        if (ringPoints < 1) {
            throw new IllegalArgumentException("ring_points is " + ringPoints + "; it must be 1 or above");
        }
        this.rule = rule;
        this.field = field;
        this.ringPoints = ringPoints;
    }

    @Override
    public void prepare(WorkerTopologyContext context, GlobalStreamId stream, List<Integer> targetTasks) {
        index = context.getComponentOutputFields(stream).fieldIndex(field);
        targets = targetTasks;
        places = context.getTaskToNodePort();
        names = context.getNodeToHost();
    }

    @Override
    public List<Integer> chooseTasks(int taskId, List<Object> values) {
        int hash = Arrays.deepHashCode(new Object[] {values.get(index)}); // Storm's, of a list of this value
        follow();
        if (machines == null || rule.equals("fields")) {
            return List.of(targets.get(Math.floorMod(hash, targets.size())));
        }
        String machine = rule.equals("ring") ? ring.machine(hash) : order.get(Math.floorMod(hash, order.size()));
        List<Integer> tasks = machines.get(machine);
        return List.of(tasks.stream().max(Comparator.comparingLong(task -> HashRing.mix(31L * hash + task))).orElseThrow());
    }

    /** Takes over where tasks are now; Storm puts another map in the place of the last one. Until it has once, there are no machines. */
    private void follow() {
        Map<Integer, NodeInfo> now = places.get();
        if (now == seen) {
            return;
        }
        SortedMap<String, List<Integer>> found = new TreeMap<>(IN_ORDER);
        for (Integer task : targets) {
            NodeInfo place = now.get(task);
            String machine = place == null ? null : names.get().get(place.get_node());
            if (place != null && machine == null) {
                return; // names follow places, a moment later
            }
            if (place != null) {
                found.computeIfAbsent(machine, name -> new ArrayList<>()).add(task);
            }
        }
        seen = now;
        if (!found.isEmpty() && !found.equals(machines)) {
            machines = found;
            order = List.copyOf(found.keySet());
            ring = new HashRing(order, ringPoints);
            LOG.info("{}: {}", rule, machines);
        }
    }
}
