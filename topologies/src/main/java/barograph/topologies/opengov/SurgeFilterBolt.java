package barograph.topologies.opengov;

import barograph.topologies.TupleBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/** Passes companies whose price has more than doubled (Fischer and Bernstein, BigData 2015, IV-C1). */
public final class SurgeFilterBolt extends TupleBolt {
    private static final double RATIO = 2;

    @Override
    protected void handle(Tuple tuple) {
        if (tuple.getDouble(3) > RATIO) {
            emit(tuple, tuple.getValues());
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(PriceRatioBolt.FIELDS);
    }
}
