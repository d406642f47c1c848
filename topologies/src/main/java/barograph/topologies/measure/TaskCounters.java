package barograph.topologies.measure;

import barograph.topologies.EmissionSchedule;
import barograph.topologies.EpochClock;
import barograph.topologies.SourceSpout;
import com.codahale.metrics.Gauge;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.hooks.ITaskHook;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/**
 * What one task did since it was last read: written by its executor's thread, emptied once a second by the sampler.
 *
 * <p>No locks: every number is an atomic that the sampler swaps with zero, so that no count is lost or read twice. It is a gauge
 * (of its task id) only so that the reporter of the same worker finds it in Storm's metric registry.
 */
public final class TaskCounters implements Gauge<Integer> {
    static final String GAUGE = "barograph-task";
    private static final String SYSTEM_PREFIX = "__";
    private static final String SHARE_KEY = "barograph.executor";
    private static final long NOT_TIMED = -1;
    private static final long NANOS_PER_MS = 1_000_000L;

    /** Tuples emitted on one stream. */
    static final class Stream {
        final String name;
        final AtomicLong emitted = new AtomicLong();

        Stream(String name) {
            this.name = name;
        }
    }

    /** Tuples executed that came from one stream of one component. */
    static final class Source {
        final String component;
        final String stream;
        final boolean hasDueTime;
        final AtomicLong executed = new AtomicLong();
        final AtomicLong timed = new AtomicLong();
        final AtomicLong executeNanos = new AtomicLong();

        Source(String component, String stream, boolean hasDueTime) {
            this.component = component;
            this.stream = stream;
            this.hasDueTime = hasDueTime;
        }
    }

    final int task;
    final String component;
    final String topology;
    final int port;
    final boolean isSpout;
    final boolean isAcked;
    final Stream[] streams;
    final Source[] sources;
    final AtomicLong transferred = new AtomicLong();
    final AtomicLong processMs = new AtomicLong();
    /** Tuples sent, by the task they were sent to; null if nobody asked for traffic. */
    final AtomicLongArray traffic;
    /** Latency at a component that emits to nobody; null elsewhere. */
    final SinkLatency latency;
    /** Counters of all tasks of the same executor, which share one receive queue. */
    final List<TaskCounters> executor;
    volatile EmissionSchedule schedule;
    volatile boolean unthrottled;
    private long ownNanos = NOT_TIMED;

    TaskCounters(TopologyContext context, boolean isAcked, boolean withTraffic) {
        this.task = context.getThisTaskId();
        this.component = context.getThisComponentId();
        this.topology = context.getStormId();
        this.port = context.getThisWorkerPort();
        this.isSpout = context.getRawTopology().get_spouts().containsKey(component);
        this.isAcked = isAcked && !isSpout;
        this.streams = streamsOf(context);
        this.sources = sourcesOf(context);
        this.traffic = withTraffic ? new AtomicLongArray(lastTask(context) + 1) : null;
        boolean isSink = !isSpout && context.getThisTargets().isEmpty() && hasDueTime(sources);
        this.latency = isSink ? new SinkLatency() : null;
        this.executor = executorOf(context);
    }

    /** The counters that the hook of this task keeps; null in a topology without the hook. */
    public static TaskCounters of(TopologyContext context) {
        for (ITaskHook hook : context.getHooks()) {
            if (hook instanceof MeasuringHook measuring) {
                return measuring.counters();
            }
        }
        return null;
    }

    static boolean isSystem(String name) {
        return name.startsWith(SYSTEM_PREFIX);
    }

    /** A component of ours says how long it took, just before Storm calls the hook on the same thread. */
    public void executedIn(long nanos) {
        ownNanos = nanos;
    }

    public void sourceFollows(EmissionSchedule emissions) {
        schedule = emissions;
    }

    public void sourceIsUnthrottled() {
        unthrottled = true;
    }

    /** A target is null where a tuple was emitted directly to a task that does not listen. */
    void emitted(String stream, Collection<Integer> targets) {
        Stream counted = stream(stream);
        if (counted == null) {
            return;
        }
        counted.emitted.getAndIncrement();
        long sent = 0;
        for (Integer target : targets) {
            if (target != null) {
                sent++;
                countTraffic(target);
            }
        }
        transferred.getAndAdd(sent);
    }

    private void countTraffic(int target) {
        if (traffic != null) {
            traffic.getAndIncrement(target);
        }
    }

    /** Storm's latency is in whole ms, and null or negative for a tuple that was not sampled. */
    void executed(Tuple tuple, Long stormMs) {
        long nanos = ownNanos;
        ownNanos = NOT_TIMED;
        Source source = source(tuple.getSourceComponent(), tuple.getSourceStreamId());
        if (source == null) {
            return;
        }
        source.executed.getAndIncrement();
        if (nanos == NOT_TIMED && stormMs != null && stormMs >= 0) {
            nanos = stormMs * NANOS_PER_MS;
        }
        if (nanos != NOT_TIMED) {
            source.executeNanos.getAndAdd(nanos);
            source.timed.getAndIncrement();
        }
        if (latency != null && source.hasDueTime && tuple.getValue(tuple.size() - 1) instanceof Number due) {
            latency.record(EpochClock.toMs(EpochClock.nowNanos()) - due.doubleValue());
        }
    }

    void processed(Tuple tuple, Long stormMs) {
        if (stormMs != null && stormMs > 0 && source(tuple.getSourceComponent(), tuple.getSourceStreamId()) != null) {
            processMs.getAndAdd(stormMs);
        }
    }

    @Override
    public Integer getValue() {
        return task;
    }

    /** Linear search: a task has a handful of streams, and a map would box. Null for Storm's own streams. */
    private Stream stream(String name) {
        for (Stream stream : streams) {
            if (stream.name.equals(name)) {
                return stream;
            }
        }
        return null;
    }

    private Source source(String from, String stream) {
        for (Source source : sources) {
            if (source.component.equals(from) && source.stream.equals(stream)) {
                return source;
            }
        }
        return null;
    }

    private static Stream[] streamsOf(TopologyContext context) {
        return context.getThisStreams().stream().filter(name -> !isSystem(name)).sorted().map(Stream::new).toArray(Stream[]::new);
    }

    private static Source[] sourcesOf(TopologyContext context) {
        return context.getThisSources().keySet().stream()
            .filter(id -> !isSystem(id.get_componentId()) && !isSystem(id.get_streamId()))
            .sorted()
            .map(id -> new Source(id.get_componentId(), id.get_streamId(), hasDueTime(context, id)))
            .toArray(Source[]::new);
    }

    private static boolean hasDueTime(TopologyContext context, GlobalStreamId id) {
        Fields fields = context.getComponentOutputFields(id);
        return fields.size() > 0 && SourceSpout.DUE_MS.equals(fields.get(fields.size() - 1));
    }

    private static boolean hasDueTime(Source[] sources) {
        for (Source source : sources) {
            if (source.hasDueTime) {
                return true;
            }
        }
        return false;
    }

    private static int lastTask(TopologyContext context) {
        return context.getTaskToComponent().keySet().stream().mapToInt(Integer::intValue).max().orElse(0);
    }

    /** One thread makes all tasks of an executor before any runs, so the list is complete when it is first read for a line. */
    private List<TaskCounters> executorOf(TopologyContext context) {
        Object known = context.getExecutorData(SHARE_KEY);
        if (known instanceof ExecutorTasks shared) {
            shared.tasks.add(this);
            return shared.tasks;
        }
        ExecutorTasks shared = new ExecutorTasks();
        shared.tasks.add(this);
        context.setExecutorData(SHARE_KEY, shared);
        return shared.tasks;
    }

    private static final class ExecutorTasks {
        final List<TaskCounters> tasks = new CopyOnWriteArrayList<>();
    }
}
