package barograph.topologies;

import barograph.topologies.Resumption.OnRestart;
import barograph.topologies.measure.Settings;
import barograph.topologies.measure.TaskCounters;
import java.util.Map;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Values;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An open-loop source of log lines.
 *
 * <p>It emits every tuple that is due, late if need be: latency from {@link Line#dueMs} contains the delay that a closed loop would
 * hide. Its schedule is the topology's: in another process than before it goes on with what the policy service has on record.
 * Unthrottled, it emits whenever Storm asks and every tuple is due when it is emitted.
 */
public final class SourceSpout extends BaseRichSpout {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = LoggerFactory.getLogger(SourceSpout.class);

    private final double ratePerSecond;
    private final long seed;
    private final boolean unthrottled;
    private final OnRestart onRestart;
    private transient SpoutOutputCollector collector;
    private transient TopologyContext context;
    private transient TaskCounters counters;
    private transient LogLines lines;
    private transient EmissionSchedule schedule;
    private transient boolean acked;
    private transient long emitted;
    private transient Patience patience;

    /** Rate in tuples per second of the component, shared evenly by its tasks; {@code onRestart}: catch_up or skip. */
    public SourceSpout(double ratePerSecond, long seed, boolean unthrottled, String onRestart) {
        if (!unthrottled && (!(ratePerSecond > 0) || Double.isInfinite(ratePerSecond))) {
            throw new IllegalArgumentException("rate_per_s is " + ratePerSecond + "; it must be a finite number above 0");
        }
        this.ratePerSecond = ratePerSecond;
        this.seed = seed;
        this.unthrottled = unthrottled;
        this.onRestart = OnRestart.of(onRestart);
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        this.context = context;
        this.counters = TaskCounters.of(context);
        this.lines = new LogLines(seed, context.getThisTaskId(), Settings.machine(conf));
        this.acked = StormCommon.hasAckers(conf);
        if (unthrottled && counters != null) {
            counters.sourceIsUnthrottled();
        }
    }

    @Override
    public void nextTuple() {
        long now = EpochClock.nowNanos();
        if (unthrottled) {
            emit(now, now);
            return;
        }
        if (schedule == null) {
            start(now);
        }
        if (schedule != null && schedule.isDue(now)) {
            emit(schedule.take(), now);
        }
    }

    /** A schedule begins when Storm first asks for a tuple, before that the topology was not up; later processes go on with it. */
    private void start(long now) {
        EmissionRecords records = counters == null ? EmissionRecords.UNKNOWN : counters.emissionRecords();
        patience = patience == null ? new Patience(context.getThisTaskId(), now) : patience;
        if (patience.isToWait(records, now)) {
            return;
        }
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        Resumption.Source source = new Resumption.Source(
            context.getThisTaskId(), context.getThisComponentId(), ratePerSecond, context.getThisTaskIndex(), tasks);
        Resumption resumption = Resumption.of(source, records == null ? EmissionRecords.UNKNOWN : records, onRestart, now);
        schedule = resumption.schedule();
        LOG.info("task {}: {} tuples behind, missed: {}, gaps: {}", source.task(), schedule.behind(), resumption.missed(), resumption.gaps());
        if (counters != null) {
            counters.sourceFollows(resumption);
        }
    }

    /** One tuple a call: Storm looks between calls whether the way out is congested. */
    private void emit(long dueNanos, long now) {
        Values values = lines.next(EpochClock.toMs(dueNanos)).values();
        if (counters != null) {
            counters.emittedAfter(now - dueNanos);
        }
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

    /** How long a source that Storm has asked for a tuple waits for what is on record. */
    static final class Patience {
        /** Where the policy service has said nothing yet. */
        static final long NANOS = 10_000_000_000L;
        /** Where it has, as the worker started: since then lines of the process before came, and the rate may have changed. */
        static final long ANEW_NANOS = 2_000_000_000L;

        private final int task;
        private final long firstCallNanos;
        private long askedNanos;

        Patience(int task, long firstCallNanos) {
            this.task = task;
            this.firstCallNanos = firstCallNanos;
        }

        /** Asks once for newer records; {@code records} are null while there are none. */
        boolean isToWait(EmissionRecords records, long now) {
            if (records == null) {
                return now - firstCallNanos < NANOS;
            }
            if (!records.areKnown() || records.areSince(firstCallNanos)) {
                return false;
            }
            if (askedNanos == 0) {
                askedNanos = now;
                return records.ask(task);
            }
            return now - askedNanos < ANEW_NANOS;
        }
    }
}
