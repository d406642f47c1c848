package barograph.topologies;

import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Emits whole numbers, counting on from its task's own: a grouping by them deals its tuples to all tasks of the next stage in turn.
 * At one stage of the chain a tuple that comes in makes {@code fanOut} others, on average where that is no whole number.
 */
public final class CounterBolt extends TupleBolt {
    private final double emitsPerTuple;
    private transient int value;
    private transient double owed;

    /** {@code stage}: of this bolt; at {@code fanOutStage} it emits {@code fanOut} tuples for one, at all others one. */
    public CounterBolt(int stage, int fanOutStage, double fanOut) {
        if (!(fanOut > 0) || Double.isInfinite(fanOut)) {
            throw new IllegalArgumentException("fan_out is " + fanOut + "; it must be a finite number above 0");
        }
        this.emitsPerTuple = stage == fanOutStage ? fanOut : 1;
    }

    @Override
    protected void begin(TopologyContext context) {
        value = context.getThisTaskId();
    }

    /** How many tuples this one makes. */
    int copies() {
        owed += emitsPerTuple;
        int copies = (int) owed;
        owed -= copies;
        return copies;
    }

    @Override
    protected void handle(Tuple tuple) {
        for (int left = copies(); left > 0; left--) {
            emit(tuple, new Values(value++, tuple.getValue(1), tuple.getValue(2)));
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(CounterSpout.FIELDS);
    }
}
