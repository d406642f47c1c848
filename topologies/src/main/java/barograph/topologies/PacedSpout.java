package barograph.topologies;

import barograph.topologies.Resumption.OnRestart;
import barograph.topologies.measure.Settings;
import barograph.topologies.measure.TaskCounters;
import java.util.Map;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Values;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An open-loop source of tuples, whose last two fields are {@link Line#SOURCE_MACHINE} and {@link Line#DUE_MS}.
 *
 * <p>It emits every tuple that is due, late if need be: latency from the due time contains the delay that a closed loop would
 * hide. Its schedule is the topology's: in another process than before it goes on with what the policy service has on record.
 * Unthrottled, it emits whenever Storm asks and every tuple is due when it is emitted. With ackers in the topology each tuple is the
 * root of a tree that Storm follows.
 */
public abstract class PacedSpout extends BaseRichSpout {
    private static final Logger LOG = LoggerFactory.getLogger(PacedSpout.class);
    private static final double MOST_BURST_MS = 1000;
    private static final double NANOS_PER_MS = 1e6;

    private final double ratePerSecond;
    private final boolean unthrottled;
    private final OnRestart onRestart;
    private final long burstNanos;
    private transient SpoutOutputCollector collector;
    private transient TopologyContext context;
    private transient TaskCounters counters;
    private transient String machine;
    private transient EmissionSchedule schedule;
    private transient boolean acked;
    private transient long emitted;
    private transient long failed;
    private transient Patience patience;

    /** Rate in tuples per second of the component, shared evenly by its tasks; {@code onRestart}: catch_up or skip. */
    protected PacedSpout(double ratePerSecond, boolean unthrottled, String onRestart) {
        this(ratePerSecond, unthrottled, onRestart, 0);
    }

    /** {@code burstMs}: what fell due in a period of so many ms is emitted together at its end; 0: each tuple when it is due. */
    protected PacedSpout(double ratePerSecond, boolean unthrottled, String onRestart, double burstMs) {
        if (!unthrottled && (!(ratePerSecond > 0) || Double.isInfinite(ratePerSecond))) {
            throw new IllegalArgumentException("rate_per_s is " + ratePerSecond + "; it must be a finite number above 0");
        }
        if (!(burstMs >= 0 && burstMs <= MOST_BURST_MS)) {
            throw new IllegalArgumentException("burst_ms is " + burstMs + "; it must be from 0 to 1000");
        }
        this.ratePerSecond = ratePerSecond;
        this.unthrottled = unthrottled;
        this.onRestart = OnRestart.of(onRestart);
        this.burstNanos = Math.round(burstMs * NANOS_PER_MS);
    }

    /** Makes what one task keeps to itself, before its first tuple. */
    protected abstract void begin(TopologyContext context);

    /** The next tuple, due at that time (epoch); {@code machine}: where the task runs. */
    protected abstract Values next(double dueMs, String machine);

    /** How many tasks the component has. */
    protected static int tasks(TopologyContext context) {
        return context.getComponentTasks(context.getThisComponentId()).size();
    }

    @Override
    public final void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        this.context = context;
        this.counters = TaskCounters.of(context);
        this.acked = StormCommon.hasAckers(conf);
        this.machine = Settings.machine(conf);
        begin(context);
        if (unthrottled && counters != null) {
            counters.sourceIsUnthrottled();
        }
    }

    @Override
    public final void nextTuple() {
        long now = EpochClock.nowNanos();
        if (unthrottled) {
            emit(now, now);
            return;
        }
        if (schedule == null) {
            start(now);
        }
        if (schedule != null && schedule.isDue(released(now, burstNanos))) {
            emit(schedule.take(), now);
        }
    }

    /** Until when (epoch) a tuple must have been due to be emitted now. */
    static long released(long now, long burstNanos) {
        return burstNanos == 0 ? now : now - Math.floorMod(now, burstNanos);
    }

    /** A schedule begins when Storm first asks for a tuple, before that the topology was not up; later processes go on with it. */
    private void start(long now) {
        EmissionRecords records = counters == null ? EmissionRecords.UNKNOWN : counters.emissionRecords();
        patience = patience == null ? new Patience(context.getThisTaskId(), now) : patience;
        if (patience.isToWait(records, now)) {
            return;
        }
        Resumption.Source source = new Resumption.Source(
            context.getThisTaskId(), context.getThisComponentId(), ratePerSecond, context.getThisTaskIndex(), tasks(context));
        Resumption resumption = Resumption.of(source, records == null ? EmissionRecords.UNKNOWN : records, onRestart, now);
        schedule = resumption.schedule();
        LOG.info("task {}: {} tuples behind, missed: {}, gaps: {}", source.task(), schedule.behind(), resumption.missed(), resumption.gaps());
        if (counters != null) {
            counters.sourceFollows(resumption);
        }
    }

    /** One tuple a call: Storm looks between calls whether the way out is congested, and how many trees are pending. */
    private void emit(long dueNanos, long now) {
        Values values = next(EpochClock.toMs(dueNanos), machine);
        if (counters != null) {
            counters.emittedAfter(now - dueNanos);
        }
        if (acked) {
            collector.emit(values, emitted++);
        } else {
            collector.emit(values);
        }
    }

    /** It is not emitted again: a tuple of its tree was lost with a worker, or took longer than the message timeout. */
    @Override
    public final void fail(Object messageId) {
        failed++;
        if (Long.bitCount(failed) == 1) { // the first one, and then ever fewer: a topology that stands fails them all
            LOG.warn("task {}: {} of its tuples were not acked within the message timeout", context.getThisTaskId(), failed);
        }
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
