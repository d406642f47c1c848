package barograph.topologies;

import barograph.topologies.measure.TaskCounters;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/** A bolt whose tuples cost {@code msPerCharacter} for each character of their first field. */
abstract class CostedBolt extends BaseRichBolt {
    private static final long serialVersionUID = 1L;
    private static final double NANOS_PER_MS = 1e6;

    private final CostModel cost;
    private final double msPerCharacter;
    private transient OutputCollector collector;
    private transient TaskCounters counters;

    CostedBolt(String costModel, double msPerCharacter) {
        if (!(msPerCharacter >= 0) || Double.isInfinite(msPerCharacter)) {
            throw new IllegalArgumentException("ms_per_character is " + msPerCharacter + "; it must be a finite number, 0 or above");
        }
        this.cost = CostModel.of(costModel);
        this.msPerCharacter = msPerCharacter;
    }

    @Override
    public final void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        this.counters = TaskCounters.of(context);
    }

    /** Times itself, because Storm measures in whole milliseconds. */
    @Override
    public final void execute(Tuple tuple) {
        long start = System.nanoTime();
        cost.spend((long) (msPerCharacter * NANOS_PER_MS * tuple.getString(0).length()));
        stopIfInterrupted();
        pass(tuple, collector);
        collector.ack(tuple);
        if (counters != null) {
            counters.executedIn(System.nanoTime() - start);
        }
    }

    /** Storm interrupts a worker that ends: without this the rest of the queue would run through in no time and be counted. */
    private static void stopIfInterrupted() {
        if (Thread.currentThread().isInterrupted()) {
            throw new IllegalStateException("the worker is shutting down", new InterruptedException());
        }
    }

    /** Sends on what the tuple becomes, anchored to it. */
    abstract void pass(Tuple tuple, OutputCollector collector);
}
