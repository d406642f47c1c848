package barograph.bridge;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The plans under way, at most one a topology. Used by Nimbus's timer thread and by ours.
 *
 * <p>They are in a file too, for the Nimbus that takes over when this one ends: Storm goes on with the rebalance, and what was
 * planned for it must be known. A plan that has ended stays in the file until the next round, when Storm has stored what the
 * round before has placed.
 */
final class Plans {
    private static final Logger LOG = LoggerFactory.getLogger(Plans.class);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeReference<List<Plan>> LIST = new TypeReference<>() {};

    private record Entry(Plan plan, long beganNanos, boolean restored, boolean requested) {}

    private final Map<String, Entry> byTopology = new ConcurrentHashMap<>();
    private final Path file;
    private final Duration limit;
    private final LongSupplier nanoTime;
    private List<Plan> onDisk = List.of();

    /** `limit`: a plan whose rebalance has not come by then, after its own wait, is given up. */
    Plans(Path file, Duration limit, LongSupplier nanoTime) {
        this.file = file;
        this.limit = limit;
        this.nanoTime = nanoTime;
        read().forEach(plan -> byTopology.put(plan.topologyId(), new Entry(plan, nanoTime.getAsLong(), true, false)));
    }

    /** On disk when it returns: the rebalance must not come without it. */
    void begin(Plan plan) {
        byTopology.put(plan.topologyId(), new Entry(plan, nanoTime.getAsLong(), false, false));
        save();
    }

    /** Writes what is under way, if that is not what is on disk. */
    synchronized void save() {
        List<Plan> now = all();
        if (now.equals(onDisk)) {
            return;
        }
        try {
            Path draft = file.resolveSibling(file.getFileName() + ".new");
            Files.write(draft, JSON.writeValueAsBytes(now));
            Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            onDisk = now;
        } catch (IOException e) {
            LOG.error("cannot write {}: {}; should Nimbus end now, its rebalances are not as planned", file, e.toString());
        }
    }

    private List<Plan> read() {
        try {
            onDisk = Files.exists(file) ? JSON.readValue(file.toFile(), LIST) : List.of();
        } catch (IOException e) {
            LOG.error("cannot read {}: {}; rebalances that Nimbus was in are not as planned", file, e.toString());
        }
        return onDisk;
    }

    /** Whether a Nimbus before this one began it, so that nobody knows how far it came. */
    boolean isRestored(Plan plan) {
        Entry entry = byTopology.get(plan.topologyId());
        return entry != null && entry.restored();
    }

    /** Whether this Nimbus has been asked for its rebalance. */
    boolean isRequested(Plan plan) {
        Entry entry = byTopology.get(plan.topologyId());
        return entry != null && entry.requested();
    }

    void request(Plan plan) {
        byTopology.computeIfPresent(plan.topologyId(), (id, entry) ->
            entry.plan() == plan ? new Entry(plan, entry.beganNanos(), entry.restored(), true) : entry);
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
        return byTopology.values().stream().map(Entry::plan).sorted(Comparator.comparing(Plan::topologyId)).toList();
    }

    Set<String> topologies() {
        return Set.copyOf(byTopology.keySet());
    }

    boolean isOverdue(Plan plan) {
        Entry entry = byTopology.get(plan.topologyId());
        return entry != null && nanoTime.getAsLong() - entry.beganNanos() > limit.plusSeconds(plan.waitSeconds()).toNanos();
    }
}
