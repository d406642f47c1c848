package barograph.topologies.opengov;

import barograph.topologies.Line;
import barograph.topologies.TupleBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Makes of the lowest and the highest price how many times the one the other is. */
public final class PriceRatioBolt extends TupleBolt {
    static final Fields FIELDS = new Fields("symbol", "company", "day", "ratio", Line.SOURCE_MACHINE, Line.DUE_MS);

    @Override
    protected void handle(Tuple tuple) {
        double ratio = tuple.getDouble(4) / tuple.getDouble(3);
        emit(tuple, new Values(
            tuple.getString(0), tuple.getString(1), tuple.getLong(2), ratio, tuple.getValue(5), tuple.getValue(6)));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(FIELDS);
    }
}
