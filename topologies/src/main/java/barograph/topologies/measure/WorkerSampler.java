package barograph.topologies.measure;

import barograph.topologies.EmissionRecords;
import barograph.topologies.EpochClock;
import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Once a second, at the full second, empties the counters of a worker's tasks into a line, and hands it on. */
final class WorkerSampler implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(WorkerSampler.class);
    private static final long SECOND_NANOS = 1_000_000_000L;
    private static final double NANOS_PER_SECOND = 1e9;
    private static final long NANOS_PER_MS = 1_000_000L;
    private static final long JOIN_MS = 1000;

    private final Settings settings;
    private final IntFunction<Integer> queueLength;
    private final SamplePoster poster;
    private final List<TaskCounters> tasks = new CopyOnWriteArrayList<>();
    private final Thread thread = new Thread(this::run, "barograph-sampler");
    private volatile boolean closing;
    private SampleFile file;
    private WorkerLine.Worker worker;
    private boolean failing;
    private double inputRateFactor = 1;
    private SamplesAnswer.Rates rates;
    private EmissionRecords records;
    private long sequence;
    private long lastNanos = EpochClock.nowNanos();
    private final long beginMs = lastNanos / NANOS_PER_MS;

    /** {@code queueLength} gives the tuples that wait for a task's executor, or null where unknown. */
    WorkerSampler(Settings settings, IntFunction<Integer> queueLength) {
        this.settings = settings;
        this.queueLength = queueLength;
        this.poster = settings.samplesUri() == null ? null
            : new SamplePoster(settings.samplesUri(), settings.topology(), settings.tokenFile(), settings.certificate(), settings.window(), this::follow);
        records = poster == null ? EmissionRecords.UNKNOWN : null;
        thread.setDaemon(true);
    }

    void add(TaskCounters counters) {
        tasks.add(counters);
        counters.waiting(() -> queueLength.apply(counters.task));
        synchronized (tasks) {
            counters.inputRate(inputRateFactor);
            if (rates != null) {
                counters.inputRates(rates.of(counters.component));
            }
            if (records != null) {
                counters.emissionRecords(records);
            }
        }
    }

    /** The rate of every answer, and the records of the first one; tasks that join later follow them too. */
    private void follow(SamplesAnswer answer) {
        synchronized (tasks) {
            if (answer.rates() == null) {
                answer.factor().ifPresent(this::inputRate);
            } else {
                inputRates(answer.rates());
            }
            if (records == null) {
                records = answer.records();
                tasks.forEach(counters -> counters.emissionRecords(records));
            }
        }
    }

    private void inputRates(SamplesAnswer.Rates newer) {
        if (rates == null) {
            LOG.info("input rates follow a course: {}", newer);
        }
        rates = newer;
        tasks.forEach(counters -> counters.inputRates(newer.of(counters.component)));
    }

    private void inputRate(double factor) {
        if (factor == inputRateFactor) {
            return;
        }
        LOG.info("input rate: {} times the submitted one", factor);
        inputRateFactor = factor;
        tasks.forEach(counters -> counters.inputRate(factor));
    }

    void start() {
        if (poster != null) {
            poster.start();
        }
        thread.start();
    }

    /** Writes the last, partial second. */
    @Override
    public void close() {
        closing = true;
        LockSupport.unpark(thread);
        try {
            thread.join(JOIN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        trySample();
        closeOutputs();
    }

    private synchronized void closeOutputs() {
        if (poster != null) {
            poster.close();
        }
        try {
            if (file != null) {
                file.close();
            }
        } catch (IOException e) {
            LOG.warn("cannot close the samples' file: {}", e.toString());
        }
    }

    private void run() {
        while (true) {
            long end = (EpochClock.nowNanos() / SECOND_NANOS + 1) * SECOND_NANOS;
            for (long left = end - EpochClock.nowNanos(); left > 0 && !closing; left = end - EpochClock.nowNanos()) {
                LockSupport.parkNanos(left);
            }
            if (closing) {
                return;
            }
            trySample();
        }
    }

    /** A fault of ours must cost a line, never the worker. */
    void trySample() {
        try {
            sample();
        } catch (RuntimeException e) {
            LOG.error("a second of samples was lost", e);
        }
    }

    /** The process is about to end: what is known of its tasks goes to whoever begins them anew. */
    void lastSecond() {
        trySample();
        if (poster != null) {
            poster.flush();
        }
    }

    synchronized void sample() {
        long now = EpochClock.nowNanos();
        double lengthS = (now - lastNanos) / NANOS_PER_SECOND;
        lastNanos = now;
        if (tasks.isEmpty()) {
            return;
        }
        List<TaskSample> samples = take(now);
        TaskCounters any = tasks.get(0);
        if (worker == null) {
            worker = new WorkerLine.Worker(settings.machine(), any.port, ProcessHandle.current().pid(), any.topology);
            file = new SampleFile(settings.directory(), settings.machine() + "-" + any.port, beginMs);
        }
        handOn(new WorkerLine(worker, sequence++, now / NANOS_PER_SECOND, lengthS, samples));
    }

    private List<TaskSample> take(long toNanos) {
        List<TaskSample> samples = new ArrayList<>();
        for (TaskCounters counters : tasks) {
            if (counters.executor.get(0) == counters) {
                takeExecutor(counters.executor, toNanos, samples);
            }
        }
        samples.sort(Comparator.comparingInt(TaskSample::task));
        return samples;
    }

    /** Tasks of one executor have one queue and one thread: each gets an even share, so that sums over tasks are right. */
    private void takeExecutor(List<TaskCounters> executor, long toNanos, List<TaskSample> samples) {
        Integer waiting = queueLength.apply(executor.get(0).task);
        int n = executor.size();
        Double cpuMs = share(executor.get(0).takeCpuMs(), n);
        Double backpressureMs = share(executor.get(0).takeBackpressureMs(), n);
        for (int i = 0; i < n; i++) {
            Integer queue = waiting == null ? null : Integer.valueOf(waiting / n + (i < waiting % n ? 1 : 0));
            samples.add(TaskSample.take(executor.get(i), toNanos, queue, cpuMs, backpressureMs));
        }
    }

    private static Double share(Double ofAll, int tasks) {
        return ofAll == null ? null : Double.valueOf(ofAll / tasks);
    }

    private void handOn(WorkerLine line) {
        if (poster != null) { // first: a policy can do without our files
            poster.offer(line.toJson());
        }
        try {
            file.append(line.toAvro());
            if (failing) {
                LOG.info("samples are written to disk again");
            }
            failing = false;
        } catch (IOException e) {
            if (!failing) {
                LOG.error("samples cannot be written to {}: {}", settings.directory(), e.toString());
            }
            failing = true;
        }
    }
}
