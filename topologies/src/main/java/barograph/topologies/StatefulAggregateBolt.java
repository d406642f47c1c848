package barograph.topologies;

import barograph.topologies.measure.TaskCounters;
import java.util.Map;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.tuple.Tuple;

/**
 * Does as {@link AggregateBolt}, with its counts in Storm's state, which survives the worker: after a restart it goes on with those of
 * the last checkpoint. Tuples of after it are lost, for no source here emits one again.
 */
public final class StatefulAggregateBolt extends BaseStatefulBolt<KeyValueState<Integer, Integer>> {
    private final LineCost cost;
    private transient OutputCollector collector;
    private transient TaskCounters counters;
    private transient KeyValueState<Integer, Integer> seen;

    public StatefulAggregateBolt(String costModel, double msPerCharacter) {
        this.cost = new LineCost(costModel, msPerCharacter);
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        this.counters = TaskCounters.of(context);
        if (counters != null) {
            counters.countedByComponent();
        }
    }

    @Override
    public void initState(KeyValueState<Integer, Integer> state) {
        this.seen = state;
    }

    @Override
    public void execute(Tuple tuple) {
        long start = System.nanoTime();
        Line line = Line.of(tuple);
        cost.spend(line);
        int count = seen.get(line.id(), 0) + 1;
        seen.put(line.id(), count);
        collector.emit(tuple, line.withCount(count).values());
        collector.ack(tuple);
        if (counters != null) {
            counters.executedIn(tuple, System.nanoTime() - start);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
