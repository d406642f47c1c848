package barograph.topologies;

import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/** A bolt that makes of each line another or none, at the cost of {@code msPerCharacter} for each character that comes in. */
abstract class CostedBolt extends TupleBolt {
    private static final double NANOS_PER_MS = 1e6;

    private final CostModel cost;
    private final double msPerCharacter;

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
    protected final void begin(TopologyContext context) {
        begin(context.getThisTaskId());
    }

    @Override
    protected final void handle(Tuple tuple) {
        Line line = Line.of(tuple);
        cost.spend((long) (msPerCharacter * NANOS_PER_MS * line.text().length()));
        stopIfInterrupted();
        Line made = work(line);
        if (made != null) {
            emit(tuple, made.values());
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
