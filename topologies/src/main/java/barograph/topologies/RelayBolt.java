package barograph.topologies;

import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/** Sends the tuples of a {@link KeySpout} on as they came; where nobody gets them it ends them. */
public final class RelayBolt extends TupleBolt {
    private final int sizeBytes;
    private transient boolean isEnd;

    public RelayBolt(int sizeBytes) {
        this.sizeBytes = KeySpout.size(sizeBytes);
    }

    @Override
    protected void begin(TopologyContext context) {
        isEnd = context.getThisTargets().isEmpty();
    }

    @Override
    protected void handle(Tuple tuple) {
        if (!isEnd) {
            emit(tuple, tuple.getValues());
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(KeySpout.fields(sizeBytes));
    }
}
