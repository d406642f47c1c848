package barograph.topologies;

import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/** A bolt that makes of each line another or none, at the cost of {@code msPerCharacter} for each character that comes in. */
abstract class CostedBolt extends TupleBolt {
    private final LineCost cost;

    CostedBolt(String costModel, double msPerCharacter) {
        this.cost = new LineCost(costModel, msPerCharacter);
    }

    /** Makes what one task keeps to itself, before its first line. */
    void begin(int task) {
    }

    /** What the line becomes; null where nothing is sent on. */
    abstract Line work(Line line);

    @Override
    protected final void begin(TopologyContext context) {
        begin(context.getThisTaskId());
    }

    @Override
    protected final void handle(Tuple tuple) {
        Line line = Line.of(tuple);
        cost.spend(line);
        Line made = work(line);
        if (made != null) {
            emit(tuple, made.values());
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
