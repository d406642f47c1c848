package barograph.topologies;

import java.util.List;
import java.util.SplittableRandom;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.TupleUtils;

/**
 * A source each task of which emits one key of 16 bytes for good, and beside it a payload where a tuple is to be larger.
 *
 * <p>Of components with as many tasks that group by the key, each has one task that gets all tuples of this one (Fischer and
 * Bernstein, BigData 2015, IV-C2 and 3).
 */
public final class KeySpout extends PacedSpout {
    static final int KEY_BYTES = 16;
    private static final int MOST_BYTES = 1_000_000;

    private final long seed;
    private final int sizeBytes;
    private final int shift;
    private transient byte[] key;
    private transient byte[] payload;

    /** {@code sizeBytes}: of key and payload. {@code shift}: task i feeds task i + shift of the component that follows. */
    public KeySpout(double ratePerSecond, long seed, boolean unthrottled, String onRestart, int sizeBytes, int shift) {
        super(ratePerSecond, unthrottled, onRestart);
        this.seed = seed;
        this.sizeBytes = size(sizeBytes);
        this.shift = shift;
    }

    static int size(int bytes) {
        if (bytes < KEY_BYTES || bytes > MOST_BYTES) {
            throw new IllegalArgumentException("size_bytes is " + bytes + "; it must be from 16, the key's, to 1000000");
        }
        return bytes;
    }

    static Fields fields(int sizeBytes) {
        return sizeBytes == KEY_BYTES
            ? new Fields("key", Line.SOURCE_MACHINE, Line.DUE_MS)
            : new Fields("key", "payload", Line.SOURCE_MACHINE, Line.DUE_MS);
    }

    @Override
    protected void begin(TopologyContext context) {
        int tasks = tasks(context);
        SplittableRandom random = LogLines.random(seed, context.getThisTaskIndex());
        key = key(random, Math.floorMod(context.getThisTaskIndex() + shift, tasks), tasks);
        payload = new byte[sizeBytes - KEY_BYTES];
        random.nextBytes(payload);
    }

    /** A random key that Storm's grouping by field sends to that one of so many tasks. */
    static byte[] key(SplittableRandom random, int index, int tasks) {
        byte[] key = new byte[KEY_BYTES];
        do {
            random.nextBytes(key);
        } while (TupleUtils.chooseTaskIndex(List.of(key), tasks) != index);
        return key;
    }

    @Override
    protected Values next(double dueMs, String machine) {
        return payload.length == 0 ? new Values(key, machine, dueMs) : new Values(key, payload, machine, dueMs);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(fields(sizeBytes));
    }
}
