package barograph.topologies;

import barograph.topologies.measure.TaskCounters;
import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/** A bolt that times itself, anchors what it emits, and acks each tuple when it is done with it. */
public abstract class TupleBolt extends BaseRichBolt {
    private transient OutputCollector collector;
    private transient TaskCounters counters;

    /** Makes what one task keeps to itself, before its first tuple. */
    protected void begin(TopologyContext context) {
    }

    /** Does with the tuple what this component is for. */
    protected abstract void handle(Tuple tuple);

    protected final void emit(Tuple anchor, List<Object> values) {
        collector.emit(anchor, values);
    }

    @Override
    public final void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        this.counters = TaskCounters.of(context);
        begin(context);
    }

    /**
     * Times itself, because Storm measures in whole milliseconds. A tuple that a limit on the queue drops is acked, not failed: a spout
     * would emit it again, into the overload that it was dropped for.
     */
    @Override
    public final void execute(Tuple tuple) {
        if (counters != null && counters.drops(tuple)) {
            collector.ack(tuple);
            return;
        }
        long start = System.nanoTime();
        handle(tuple);
        collector.ack(tuple);
        if (counters != null) {
            counters.executedIn(System.nanoTime() - start);
        }
    }
}
