package barograph.bridge;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;

/** The plans under way, at most one a topology. Used by Nimbus's timer thread and by ours. */
final class Plans {
    private record Entry(Plan plan, long beganNanos) {}

    private final Map<String, Entry> byTopology = new ConcurrentHashMap<>();
    private final Duration limit;
    private final LongSupplier nanoTime;

    /** `limit`: a plan whose rebalance has not come by then is given up. */
    Plans(Duration limit, LongSupplier nanoTime) {
        this.limit = limit;
        this.nanoTime = nanoTime;
    }

    void begin(Plan plan) {
        byTopology.put(plan.topologyId(), new Entry(plan, nanoTime.getAsLong()));
    }

    /** False if the plan had ended already. */
    boolean end(Plan plan) {
        Entry entry = byTopology.get(plan.topologyId());
        return entry != null && entry.plan() == plan && byTopology.remove(plan.topologyId(), entry);
    }

    Optional<Plan> of(String topologyId) {
        return Optional.ofNullable(byTopology.get(topologyId)).map(Entry::plan);
    }

    List<Plan> all() {
        return byTopology.values().stream().map(Entry::plan).toList();
    }

    Set<String> topologies() {
        return Set.copyOf(byTopology.keySet());
    }

    boolean isOverdue(Plan plan) {
        Entry entry = byTopology.get(plan.topologyId());
        return entry != null && nanoTime.getAsLong() - entry.beganNanos() > limit.toNanos();
    }
}
