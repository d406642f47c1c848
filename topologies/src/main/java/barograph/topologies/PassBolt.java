package barograph.topologies;

import org.apache.storm.task.OutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/** Emits every tuple as it came, text and due time untouched, after paying its cost. */
public final class PassBolt extends CostedBolt {
    private static final long serialVersionUID = 1L;

    public PassBolt(String costModel, double msPerCharacter) {
        super(costModel, msPerCharacter);
    }

    @Override
    void pass(Tuple tuple, OutputCollector collector) {
        collector.emit(tuple, tuple.getValues());
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields(SourceSpout.TEXT, SourceSpout.DUE_MS));
    }
}
