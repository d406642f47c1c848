package barograph.topologies;

import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Values;

/** A source of log lines. */
public final class SourceSpout extends PacedSpout {
    private final long seed;
    private transient LogLines lines;

    /** Rate in tuples per second of the component, shared evenly by its tasks; {@code onRestart}: catch_up or skip. */
    public SourceSpout(double ratePerSecond, long seed, boolean unthrottled, String onRestart) {
        super(ratePerSecond, unthrottled, onRestart);
        this.seed = seed;
    }

    @Override
    protected void begin(TopologyContext context) {
        lines = new LogLines(seed, context.getThisTaskId());
    }

    @Override
    protected Values next(double dueMs, String machine) {
        return lines.next(dueMs, machine).values();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
