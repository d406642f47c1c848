package barograph.topologies;

import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/** Consumes tuples of any fields and emits to nobody. */
public final class EndBolt extends TupleBolt {
    @Override
    protected void handle(Tuple tuple) {
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
    }
}
