package barograph.topologies;

import barograph.topologies.measure.TaskCounters;
import java.util.Map;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Values;

/**
 * An open-loop source of log lines.
 *
 * <p>It emits every tuple that is due, late if need be, and never skips one: latency from {@link Line#dueMs} contains the delay that
 * a closed loop would hide. Unthrottled, it emits whenever Storm asks and every tuple is due when it is emitted.
 */
public final class SourceSpout extends BaseRichSpout {
    private static final long serialVersionUID = 1L;

    private final double ratePerSecond;
    private final long seed;
    private final boolean unthrottled;
    private transient SpoutOutputCollector collector;
    private transient TopologyContext context;
    private transient TaskCounters counters;
    private transient LogLines lines;
    private transient EmissionSchedule schedule;
    private transient boolean acked;
    private transient long emitted;

    /** Rate in tuples per second of the component, shared evenly by its tasks. */
    public SourceSpout(double ratePerSecond, long seed, boolean unthrottled) {
        if (!unthrottled && (!(ratePerSecond > 0) || Double.isInfinite(ratePerSecond))) {
            throw new IllegalArgumentException("rate_per_s is " + ratePerSecond + "; it must be a finite number above 0");
        }
        this.ratePerSecond = ratePerSecond;
        this.seed = seed;
        this.unthrottled = unthrottled;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        this.context = context;
        this.counters = TaskCounters.of(context);
        this.lines = new LogLines(seed, context.getThisTaskId());
        this.acked = StormCommon.hasAckers(conf);
        if (unthrottled && counters != null) {
            counters.sourceIsUnthrottled();
        }
    }

    @Override
    public void nextTuple() {
        long now = EpochClock.nowNanos();
        if (unthrottled) {
            emit(now);
            return;
        }
        if (schedule == null) {
            start(now);
        }
        if (schedule.isDue(now)) {
            emit(schedule.take());
        }
    }

    /** The grid begins when Storm first asks for a tuple: before that the topology was not up. */
    private void start(long now) {
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        schedule = new EmissionSchedule(ratePerSecond, context.getThisTaskIndex(), tasks, now);
        if (counters != null) {
            counters.sourceFollows(schedule);
        }
    }

    /** One tuple a call: Storm looks between calls whether the way out is congested. */
    private void emit(long dueNanos) {
        Values values = lines.next(EpochClock.toMs(dueNanos)).values();
        if (acked) {
            collector.emit(values, emitted++);
        } else {
            collector.emit(values);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
