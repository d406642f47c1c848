package barograph.topologies.measure;

import barograph.topologies.EmissionRecords;
import barograph.topologies.EmissionRecords.RateChange;
import barograph.topologies.EmissionSchedule;
import barograph.topologies.EpochClock;
import barograph.topologies.Line;
import barograph.topologies.Resumption;
import com.codahale.metrics.Gauge;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.apache.storm.daemon.Acker;
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
    static final String UNKNOWN_MACHINE = "";
    private static final int MOST_MACHINES = 256;
    /** Of Storm's own components and streams; the second of those that carry its checkpoints of state. */
    private static final List<String> SYSTEM_PREFIXES = List.of("__", "$");
    private static final String EXECUTOR = "barograph.executor";
    private static final long NOT_TIMED = -1;
    private static final long NANOS_PER_MS = 1_000_000L;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    /** A tuple that is emitted later than this after its due time is late. */
    private static final long LATE_NANOS = 1_000_000_000L;

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
        final boolean hasSourceMachine;
        /** A tuple is counted once, as timed or as not: a count of all beside it could be read between the two. */
        final AtomicLong timed = new AtomicLong();
        final AtomicLong notTimed = new AtomicLong();
        final AtomicLong executeNanos = new AtomicLong();
        final AtomicLong dropped = new AtomicLong();

        Source(String component, String stream, boolean hasDueTime, boolean hasSourceMachine) {
            this.component = component;
            this.stream = stream;
            this.hasDueTime = hasDueTime;
            this.hasSourceMachine = hasDueTime && hasSourceMachine;
        }
    }

    /** Which task, and of what kind. */
    record Identity(
        int task, String component, String topology, int port, boolean isSpout, boolean isSink, boolean isAcked, boolean isWaitTimed) {
    }

    final int task;
    final String component;
    final String topology;
    final int port;
    final boolean isSpout;
    final boolean isAcked;
    /** One of Storm's own, of which all that it executes is counted together, whatever it came from. */
    final boolean isAcker;
    /** Whether the topology waits under back-pressure with {@link BackPressureWait}. */
    final boolean isWaitTimed;
    final Stream[] streams;
    final Source[] sources;
    final AtomicLong transferred = new AtomicLong();
    final AtomicLong processMs = new AtomicLong();
    final AtomicLong late = new AtomicLong();
    /** How the source began, until it is written. */
    final AtomicReference<Resumption> resumption = new AtomicReference<>();
    /** Tuples sent, by the task they were sent to; null if nobody asked for traffic. */
    final AtomicLongArray traffic;
    /** Latency at a component that emits to nobody, by the machine that the tuples come from (empty: unknown); null elsewhere. */
    final Map<String, SinkLatency> latencies;
    /** Counters of all tasks of the same executor, which share one receive queue. */
    final List<TaskCounters> executor;
    volatile EmissionSchedule schedule;
    volatile boolean unthrottled;
    private volatile EmissionRecords emissionRecords;
    /** The executor's, from its first tuple on: nobody else executes, and a spout emits on no other. */
    private volatile Thread thread;
    /** Tuples that wait for the executor; null where nobody knows. */
    private volatile Supplier<Integer> waiting = () -> null;
    /** Tuples that may wait for the executor; 0: any number. */
    private int queueLimit;
    private boolean isDropped;
    /** That thread's wait under back-pressure; nobody waits before a first tuple. */
    private volatile AtomicLong waitedNanos;
    private boolean isCountedByComponent;
    private double inputRateFactor = 1;
    /** Null as long as no rate follows a course; then the factor is nothing to go by. */
    private List<RateChange> inputRates;
    private long ownNanos = NOT_TIMED;
    private long cpuNanos = NOT_TIMED;

    TaskCounters(Identity identity, List<Stream> streams, List<Source> sources, int lastTask, List<TaskCounters> executor) {
        this.task = identity.task;
        this.component = identity.component;
        this.topology = identity.topology;
        this.port = identity.port;
        this.isSpout = identity.isSpout;
        this.isAcked = identity.isAcked && !identity.isSpout;
        this.isAcker = Acker.ACKER_COMPONENT_ID.equals(identity.component);
        this.isWaitTimed = identity.isWaitTimed;
        this.streams = streams.toArray(Stream[]::new);
        this.sources = sources.toArray(Source[]::new);
        this.traffic = lastTask > 0 ? new AtomicLongArray(lastTask + 1) : null;
        boolean isSink = identity.isSink && sources.stream().anyMatch(source -> source.hasDueTime);
        this.latencies = isSink ? new ConcurrentHashMap<>() : null;
        this.executor = executor;
    }

    /** Counters of the task that Storm is about to make; its streams and sources are known from the topology. */
    static TaskCounters of(TopologyContext context, boolean isAcked, boolean withTraffic, boolean isWaitTimed) {
        boolean isSpout = context.getRawTopology().get_spouts().containsKey(context.getThisComponentId());
        Identity identity = new Identity(
            context.getThisTaskId(), context.getThisComponentId(), context.getStormId(), context.getThisWorkerPort(),
            isSpout, !isSpout && context.getThisTargets().isEmpty(), isAcked, isWaitTimed);
        List<TaskCounters> executor = executorOf(context);
        TaskCounters counters =
            new TaskCounters(identity, streamsOf(context), sourcesOf(context), withTraffic ? lastTask(context) : 0, executor);
        executor.add(counters);
        return counters;
    }

    /** Of one of Storm's ackers: the topology that its context has does not know it, and nothing is asked of its streams. */
    static TaskCounters ofAcker(TopologyContext context, boolean isWaitTimed) {
        Identity identity = new Identity(
            context.getThisTaskId(), context.getThisComponentId(), context.getStormId(), context.getThisWorkerPort(), false, false, false,
            isWaitTimed);
        List<TaskCounters> executor = executorOf(context);
        TaskCounters counters = new TaskCounters(identity, List.of(), List.of(new Source("", "", false, false)), 0, executor);
        executor.add(counters);
        return counters;
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
        return SYSTEM_PREFIXES.stream().anyMatch(name::startsWith);
    }

    /** Before the first tuple. */
    void queueLimit(int tuples) {
        queueLimit = tuples;
    }

    boolean hasQueueLimit() {
        return queueLimit > 0 && !isSpout;
    }

    void waiting(Supplier<Integer> tuples) {
        waiting = tuples;
    }

    /**
     * Whether a bolt is to drop the tuple that it takes, because more wait behind it than may: the oldest goes. It is counted then, and
     * what Storm tells the hook of it is not. Storm's own tuples, such as ticks, are never dropped.
     */
    public boolean drops(Tuple tuple) {
        isDropped = false;
        Integer behind = queueLimit > 0 ? waiting.get() : null;
        if (behind == null || behind <= queueLimit) {
            return false;
        }
        Source source = source(tuple.getSourceComponent(), tuple.getSourceStreamId());
        if (source == null) {
            return false;
        }
        source.dropped.getAndIncrement();
        isDropped = true;
        return true;
    }

    /** A component of ours says how long it took, just before Storm calls the hook on the same thread. */
    public void executedIn(long nanos) {
        ownNanos = nanos;
    }

    /**
     * Storm holds back the tuples of a component with state until that is restored, and has told the hook of them by then: such a
     * component says itself what it executes.
     */
    public void countedByComponent() {
        isCountedByComponent = true;
    }

    boolean isCountedByComponent() {
        return isCountedByComponent;
    }

    public void executedIn(Tuple tuple, long nanos) {
        ownNanos = nanos;
        executed(tuple, null);
    }

    /** What is on record of the source's earlier processes; null until somebody said so, or that nobody knows. */
    public EmissionRecords emissionRecords() {
        return emissionRecords;
    }

    /** Those of another topology say nothing of this one. */
    void emissionRecords(EmissionRecords records) {
        emissionRecords = topology.equals(records.topology()) ? records : EmissionRecords.UNKNOWN;
    }

    /** From now on the source emits by its schedule, and the schedule follows the input rate factor. */
    public synchronized void sourceFollows(Resumption start) {
        resumption.set(start);
        schedule = start.schedule();
        follow();
    }

    /** The factor of the rate that the topology was submitted with; an unthrottled source has no rate and ignores it. */
    synchronized void inputRate(double factor) {
        inputRateFactor = factor;
        follow();
    }

    /** Changes of the rate, those too that are ahead. */
    synchronized void inputRates(List<RateChange> changes) {
        inputRates = changes;
        follow();
    }

    private void follow() {
        if (schedule != null && inputRates != null) {
            schedule.follow(inputRates, EpochClock.nowNanos());
        } else if (schedule != null) {
            schedule.follow(inputRateFactor, EpochClock.nowNanos());
        }
    }

    public void sourceIsUnthrottled() {
        unthrottled = true;
    }

    /** The source emits a tuple so long after it was due. */
    public void emittedAfter(long nanos) {
        if (nanos > LATE_NANOS) {
            late.getAndIncrement();
        }
    }

    /**
     * CPU time of the executor's thread since the last call, ms. Null until the first tuple and in the interval that it came in, for
     * what the thread did before belongs to none; and where the JVM does not say.
     */
    Double takeCpuMs() {
        Thread running = executor.stream().map(each -> each.thread).filter(Objects::nonNull).findFirst().orElse(null);
        long before = cpuNanos;
        cpuNanos = running == null || !THREADS.isThreadCpuTimeSupported() ? NOT_TIMED : THREADS.getThreadCpuTime(running.getId());
        return before < 0 || cpuNanos < 0 ? null : Double.valueOf((cpuNanos - before) / (double) NANOS_PER_MS);
    }

    /** How long the executor has waited under back-pressure since the last call, ms; null where nobody times it. */
    Double takeBackpressureMs() {
        if (!isWaitTimed) {
            return null;
        }
        AtomicLong waited = executor.stream().map(each -> each.waitedNanos).filter(Objects::nonNull).findFirst().orElse(null);
        return waited == null ? 0.0 : waited.getAndSet(0) / (double) NANOS_PER_MS;
    }

    private void runsHere() {
        if (thread == null) {
            waitedNanos = BackPressureWait.waitedNanos();
            thread = Thread.currentThread();
        }
    }

    /** A target is null where a tuple was emitted directly to a task that does not listen. */
    void emitted(String stream, Collection<Integer> targets) {
        if (isSpout) {
            runsHere();
        }
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
        if (isDropped) {
            return;
        }
        int fields = latencies == null ? 0 : tuple.size();
        Object due = fields > 0 ? tuple.getValue(fields - 1) : null;
        Object machine = fields > 1 ? tuple.getValue(fields - 2) : null;
        executed(tuple.getSourceComponent(), tuple.getSourceStreamId(), machine, due, stormMs);
    }

    /** {@code lastButOne} is the source's machine and {@code last} the due time, where the stream declares them so. */
    void executed(String from, String stream, Object lastButOne, Object last, Long stormMs) {
        runsHere();
        long nanos = ownNanos;
        ownNanos = NOT_TIMED;
        Source source = source(from, stream);
        if (source == null) {
            return;
        }
        if (nanos == NOT_TIMED && stormMs != null && stormMs >= 0) {
            nanos = stormMs * NANOS_PER_MS;
        }
        if (nanos == NOT_TIMED) {
            source.notTimed.getAndIncrement();
        } else {
            source.executeNanos.getAndAdd(nanos);
            source.timed.getAndIncrement();
        }
        if (latencies != null && source.hasDueTime && last instanceof Number due) {
            double latencyMs = EpochClock.toMs(EpochClock.nowNanos()) - due.doubleValue();
            String machine = source.hasSourceMachine && lastButOne instanceof String name ? name : UNKNOWN_MACHINE;
            latenciesFrom(machine).record(latencyMs);
        }
    }

    /** Of very many machines, which no experiment has, the later ones count as unknown: each has its counters for good. */
    private SinkLatency latenciesFrom(String machine) {
        SinkLatency known = latencies.get(machine);
        String name = known == null && latencies.size() >= MOST_MACHINES ? UNKNOWN_MACHINE : machine;
        return known != null ? known : latencies.computeIfAbsent(name, unknown -> new SinkLatency());
    }

    void processed(Tuple tuple, Long stormMs) {
        if (!isDropped && stormMs != null && stormMs > 0 && source(tuple.getSourceComponent(), tuple.getSourceStreamId()) != null) {
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
        if (isAcker) {
            return sources[0];
        }
        for (Source source : sources) {
            if (source.component.equals(from) && source.stream.equals(stream)) {
                return source;
            }
        }
        return null;
    }

    private static List<Stream> streamsOf(TopologyContext context) {
        return context.getThisStreams().stream().filter(name -> !isSystem(name)).sorted().map(Stream::new).toList();
    }

    private static List<Source> sourcesOf(TopologyContext context) {
        return context.getThisSources().keySet().stream()
            .filter(id -> !isSystem(id.get_componentId()) && !isSystem(id.get_streamId()))
            .sorted()
            .map(id -> new Source(
                id.get_componentId(), id.get_streamId(), isFromLast(context, id, 1, Line.DUE_MS), isFromLast(context, id, 2, Line.SOURCE_MACHINE)))
            .toList();
    }

    private static boolean isFromLast(TopologyContext context, GlobalStreamId id, int place, String name) {
        Fields fields = context.getComponentOutputFields(id);
        return fields.size() >= place && name.equals(fields.get(fields.size() - place));
    }

    private static int lastTask(TopologyContext context) {
        return context.getTaskToComponent().keySet().stream().mapToInt(Integer::intValue).max().orElse(0);
    }

    /** One thread makes all tasks of an executor before any of them runs. */
    private static List<TaskCounters> executorOf(TopologyContext context) {
        if (context.getExecutorData(EXECUTOR) instanceof ExecutorTasks known) {
            return known.tasks;
        }
        ExecutorTasks made = new ExecutorTasks();
        context.setExecutorData(EXECUTOR, made);
        return made.tasks;
    }

    private static final class ExecutorTasks {
        final List<TaskCounters> tasks = new CopyOnWriteArrayList<>();
    }
}
