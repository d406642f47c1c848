package barograph.topologies;

import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** A source of whole numbers: each task counts on from its own number (Aniello, Baldoni and Querzoni, DEBS 2013). */
public final class CounterSpout extends PacedSpout {
    static final Fields FIELDS = new Fields("value", Line.SOURCE_MACHINE, Line.DUE_MS);

    private transient int value;

    /** {@code burstMs}: what fell due in a period of so many ms is emitted together at its end; 0: each tuple when it is due. */
    public CounterSpout(double ratePerSecond, boolean unthrottled, String onRestart, double burstMs) {
        super(ratePerSecond, unthrottled, onRestart, burstMs);
    }

    @Override
    protected void begin(TopologyContext context) {
        this.value = context.getThisTaskId();
    }

    @Override
    protected Values next(double dueMs, String machine) {
        return new Values(value++, machine, dueMs);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(FIELDS);
    }
}
