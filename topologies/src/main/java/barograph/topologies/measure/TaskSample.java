package barograph.topologies.measure;

import barograph.topologies.EmissionSchedule;
import barograph.topologies.Resumption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLongArray;

/** What one task did in one interval: the counters' content, taken out of them. Null is "not measured". */
record TaskSample(
    int task,
    String component,
    boolean isSpout,
    long emitted,
    long transferred,
    long executed,
    Double executeMs,
    Double processMs,
    Integer queue,
    Double cpuMs,
    Double backpressureMs,
    Long dropped,
    Emissions emissions,
    List<GapSample> gaps,
    List<StreamSample> streams,
    List<SourceSample> sources,
    List<SinkSample> sinks,
    List<TrafficSample> traffic) {

    private static final double NANOS_PER_MS = 1e6;

    private static final double NANOS_PER_SECOND = 1e9;

    /** Of a source: tuples that fell due, that are due and not emitted at the interval's end, that never will be, that were late. */
    record Emissions(Long due, Long behind, Double behindMs, Long missed, Long late) {
        private static final Emissions NOT_MEASURED = new Emissions(null, null, null, null, null);
    }

    /** Tuples that fell due while no process of the task counted, between two times in epoch seconds. */
    record GapSample(int task, Double fromS, double untilS, Long due) {
    }

    record StreamSample(int task, String stream, long emitted) {
    }

    record SourceSample(int task, String component, String stream, long executed, Double executeMs, Long dropped) {
    }

    /** {@code sourceMachine} is null where the tuples do not say it. */
    record SinkSample(int task, String sourceMachine, SinkLatency.Interval latency) {
    }

    record TrafficSample(int from, int to, long n) {
    }

    /** Empties the counters. The interval ends at that time (epoch); the others are this task's shares of its executor's, or null. */
    static TaskSample take(TaskCounters counters, long toNanos, Integer queue, Double cpuMs, Double backpressureMs) {
        List<StreamSample> streams = new ArrayList<>(counters.streams.length);
        for (TaskCounters.Stream stream : counters.streams) {
            streams.add(new StreamSample(counters.task, stream.name, stream.emitted.getAndSet(0)));
        }
        List<SourceSample> sources = new ArrayList<>(counters.sources.length);
        for (TaskCounters.Source source : counters.sources) {
            sources.add(take(counters, source));
        }
        long emitted = streams.stream().mapToLong(StreamSample::emitted).sum();
        EmissionSchedule schedule = counters.schedule; // once: it may begin meanwhile, and what it resumes comes with it
        Resumption start = schedule == null ? null : counters.resumption.getAndSet(null);
        double processMs = counters.processMs.getAndSet(0);
        return new TaskSample(
            counters.task,
            counters.component,
            counters.isSpout,
            emitted,
            counters.transferred.getAndSet(0),
            sources.stream().mapToLong(SourceSample::executed).sum(),
            sum(sources),
            counters.isAcked ? processMs : null,
            queue,
            cpuMs,
            backpressureMs,
            counters.hasQueueLimit() ? sources.stream().mapToLong(SourceSample::dropped).sum() : null,
            emissions(counters, schedule, emitted, start, toNanos),
            gaps(counters.task, start),
            streams,
            counters.isAcker ? List.of() : sources,
            takeSinks(counters),
            takeTraffic(counters));
    }

    /**
     * Where Storm timed only a sample of the tuples, the sum is scaled up to all of them. A tuple's time may be taken an interval
     * before the tuple is counted, never without being taken at all.
     */
    private static SourceSample take(TaskCounters counters, TaskCounters.Source source) {
        long timed = source.timed.getAndSet(0);
        long notTimed = source.notTimed.getAndSet(0);
        long executed = timed + notTimed;
        double timedMs = source.executeNanos.getAndSet(0) / NANOS_PER_MS;
        Long dropped = counters.hasQueueLimit() ? source.dropped.getAndSet(0) : null;
        return new SourceSample(counters.task, source.component, source.stream, executed, ofAll(timedMs, timed, executed), dropped);
    }

    private static Double ofAll(double timedMs, long timed, long executed) {
        if (timed == executed) {
            return timedMs;
        }
        return timed == 0 ? null : Double.valueOf(timedMs * executed / timed);
    }

    private static Double sum(List<SourceSample> sources) {
        double sum = 0;
        for (SourceSample source : sources) {
            if (source.executeMs() == null) {
                return null;
            }
            sum += source.executeMs();
        }
        return sum;
    }

    /** An unthrottled source is due exactly when it emits; of a foreign spout, or before its schedule began, nobody knows. */
    private static Emissions emissions(
        TaskCounters counters, EmissionSchedule schedule, long emitted, Resumption start, long toNanos) {
        if (schedule == null) {
            return counters.unthrottled ? new Emissions(emitted, 0L, 0.0, 0L, 0L) : Emissions.NOT_MEASURED;
        }
        long due = schedule.countDue(toNanos);
        Long missed = start == null ? Long.valueOf(0) : start.missed();
        return new Emissions(due, schedule.behind(), schedule.behindNanos(toNanos) / NANOS_PER_MS, missed, counters.late.getAndSet(0));
    }

    private static List<GapSample> gaps(int task, Resumption start) {
        if (start == null) {
            return List.of();
        }
        return start.gaps().stream()
            .map(gap -> new GapSample(task, gap.fromNanos() == null ? null : gap.fromNanos() / NANOS_PER_SECOND,
                gap.untilNanos() / NANOS_PER_SECOND, gap.due()))
            .toList();
    }

    private static List<SinkSample> takeSinks(TaskCounters counters) {
        List<SinkSample> sinks = new ArrayList<>();
        if (counters.latencies != null) {
            counters.latencies.forEach((machine, latency) -> {
                SinkLatency.Interval taken = latency.take();
                if (taken != null) {
                    sinks.add(new SinkSample(counters.task, machine.equals(TaskCounters.UNKNOWN_MACHINE) ? null : machine, taken));
                }
            });
        }
        return sinks;
    }

    private static List<TrafficSample> takeTraffic(TaskCounters counters) {
        AtomicLongArray traffic = counters.traffic;
        List<TrafficSample> sent = new ArrayList<>();
        for (int target = 0; traffic != null && target < traffic.length(); target++) {
            long n = traffic.getAndSet(target, 0);
            if (n > 0) {
                sent.add(new TrafficSample(counters.task, target, n));
            }
        }
        return sent;
    }
}
