package barograph.topologies;

import barograph.topologies.measure.TaskCounters;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/** A bolt that makes of each line another or none, at the cost of {@code msPerCharacter} for each character that comes in. */
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

    /** Makes what one task keeps to itself, before its first line. */
    void begin(int task) {
    }

    /** What the line becomes; null where nothing is sent on. */
    abstract Line work(Line line);

    @Override
    public final void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        this.counters = TaskCounters.of(context);
        begin(context.getThisTaskId());
    }

    /** Times itself, because Storm measures in whole milliseconds. */
    @Override
    public final void execute(Tuple tuple) {
        long start = System.nanoTime();
        Line line = Line.of(tuple);
        cost.spend((long) (msPerCharacter * NANOS_PER_MS * line.text().length()));
        stopIfInterrupted();
        Line made = work(line);
        if (made != null) {
            collector.emit(tuple, made.values());
        }
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

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
