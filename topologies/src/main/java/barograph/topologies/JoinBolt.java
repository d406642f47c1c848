package barograph.topologies;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/**
 * Joins each line with those of the same id that other components sent within the last {@code retentionS}, and sends it on with their
 * number, like an outer join: also where there are none. Each line is kept for as long, with {@code keptBytes} beside it.
 * After a restart it begins without any.
 */
public final class JoinBolt extends TupleBolt {
    private static final long NANOS_PER_SECOND = 1_000_000_000L;

    private final LineCost cost;
    private final long retentionNanos;
    private final int keptBytes;
    private transient Retention kept;

    public JoinBolt(String costModel, double msPerCharacter, int retentionS, int keptBytes) {
        if (retentionS < 1 || keptBytes < 0) {
            throw new IllegalArgumentException(
                "retention_s is " + retentionS + " and kept_bytes " + keptBytes + "; they must be at least 1 and 0");
        }
        this.cost = new LineCost(costModel, msPerCharacter);
        this.retentionNanos = retentionS * NANOS_PER_SECOND;
        this.keptBytes = keptBytes;
    }

    @Override
    protected void begin(TopologyContext context) {
        kept = new Retention(retentionNanos);
    }

    @Override
    protected void handle(Tuple tuple) {
        Line line = Line.of(tuple);
        cost.spend(line);
        int partners = kept.join(tuple.getSourceComponent(), line.id(), new byte[keptBytes], System.nanoTime());
        emit(tuple, line.withCount(partners).values());
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }

    /** The lines of the last nanoseconds: in their order, and how many of each id came from each side. */
    static final class Retention {
        private record Entry(String side, int id, byte[] content, long nanos) {
        }

        private final long nanos;
        private final Queue<Entry> entries = new ArrayDeque<>();
        private final Map<String, int[]> counts = new HashMap<>();

        Retention(long nanos) {
            this.nanos = nanos;
        }

        /** Keeps the line; returns how many partners it has. */
        int join(String side, int id, byte[] content, long now) {
            while (!entries.isEmpty() && now - entries.peek().nanos >= nanos) {
                Entry oldest = entries.remove();
                counts.get(oldest.side)[oldest.id]--;
            }
            entries.add(new Entry(side, id, content, now));
            counts.computeIfAbsent(side, unknown -> new int[LogLines.IDS])[id]++;
            return counts.entrySet().stream().filter(each -> !each.getKey().equals(side)).mapToInt(each -> each.getValue()[id]).sum();
        }

        int size() {
            return entries.size();
        }
    }
}
