package barograph.topologies.measure;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.MetricRegistryListener;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntFunction;
import org.apache.storm.metrics2.MetricRegistryProvider;
import org.apache.storm.metrics2.StormMetricRegistry;
import org.apache.storm.metrics2.reporters.StormReporter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes and posts the worker's samples; goes under {@code topology.metrics.reporters}, beside {@link MeasuringHook}.
 *
 * <p>Storm starts one a worker, before its tasks exist: it waits for their counters to appear in the metric registry. Not a
 * ScheduledStormReporter, because that takes a snapshot of every metric each second and drifts off the full second.
 */
public final class SamplesReporter implements StormReporter {
    private static final Logger LOG = LoggerFactory.getLogger(SamplesReporter.class);
    private static final String WAITING = "receive-queue-population";
    private static final String OVERFLOW = "receive-queue-overflow";

    private final Thread atShutdown = new Thread(this::lastSecond, "barograph-last-second");
    /** By task: Storm looks for them among all of its gauges, and a bolt with a limit asks before each tuple. */
    private final Map<Integer, QueueGauges> gauges = new ConcurrentHashMap<>();
    private WorkerSampler sampler;

    @Override
    public void prepare(MetricRegistryProvider provider, Map<String, Object> conf, Map<String, Object> reporterConf) {
        watch(provider.getRegistry(), conf, task -> queueLength(provider, task));
    }

    /** Storm 2.8 calls the other one; from a bare registry there are no queue lengths. */
    @Override
    @Deprecated
    public void prepare(MetricRegistry registry, Map<String, Object> conf, Map<String, Object> reporterConf) {
        watch(registry, conf, task -> null);
    }

    private void watch(MetricRegistry registry, Map<String, Object> conf, IntFunction<Integer> queueLength) {
        sampler = new WorkerSampler(Settings.of(conf), queueLength);
        registry.addListener(new Joining(sampler));
    }

    /** A supervisor gives a worker a second to end, and Storm stops its reporters last: too late for some. */
    @Override
    public void start() {
        sampler.start();
        Runtime.getRuntime().addShutdownHook(atShutdown);
    }

    private void lastSecond() {
        sampler.lastSecond();
    }

    @Override
    public void stop() {
        close();
    }

    @Override
    public void close() {
        sampler.close();
        try {
            Runtime.getRuntime().removeShutdownHook(atShutdown);
        } catch (IllegalStateException e) {
            LOG.debug("the worker is shutting down already");
        }
    }

    /** Tuples that wait for the task's executor: in its queue, and behind it if the queue was full. Null if Storm does not say. */
    private Integer queueLength(MetricRegistryProvider provider, int task) {
        if (!(provider instanceof StormMetricRegistry registry)) {
            return null;
        }
        QueueGauges queue = gauges.computeIfAbsent(task, number -> {
            var named = registry.getTaskGauges(number);
            return new QueueGauges(named.get(WAITING), named.get(OVERFLOW));
        });
        Integer waiting = number(queue.population);
        Integer overflow = number(queue.overflow);
        return waiting == null ? null : Integer.valueOf(waiting + (overflow == null ? 0 : overflow));
    }

    private static Integer number(Gauge<?> gauge) {
        return gauge != null && gauge.getValue() instanceof Number number ? number.intValue() : null;
    }

    private record QueueGauges(Gauge<?> population, Gauge<?> overflow) {
    }

    /** Hands the counters of each task to the sampler when the task's hook registers them. */
    private static final class Joining extends MetricRegistryListener.Base {
        private final WorkerSampler sampler;

        Joining(WorkerSampler sampler) {
            this.sampler = sampler;
        }

        @Override
        public void onGaugeAdded(String name, Gauge<?> gauge) {
            if (gauge instanceof TaskCounters counters) {
                LOG.debug("task {} is measured", counters.task);
                sampler.add(counters);
            }
        }
    }
}
