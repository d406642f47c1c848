package barograph.topologies;

import org.apache.storm.task.OutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/** Consumes every tuple and emits to nobody. */
public final class SinkBolt extends CostedBolt {
    private static final long serialVersionUID = 1L;

    public SinkBolt(String costModel, double msPerCharacter) {
        super(costModel, msPerCharacter);
    }

    @Override
    void pass(Tuple tuple, OutputCollector collector) {
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
    }
}
