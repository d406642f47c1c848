package barograph.topologies;

import org.apache.storm.topology.OutputFieldsDeclarer;

/** Consumes every line and emits to nobody. */
public final class SinkBolt extends CostedBolt {
    public SinkBolt(String costModel, double msPerCharacter) {
        super(costModel, msPerCharacter);
    }

    @Override
    Line work(Line line) {
        return null;
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
    }
}
