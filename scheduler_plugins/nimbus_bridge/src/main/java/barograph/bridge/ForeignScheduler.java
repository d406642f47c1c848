package barograph.bridge;

import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;

/**
 * Hosts a scheduler that is not ours in a thread of its own, so that Nimbus outlives what it throws and how long it takes.
 * After a failure it is closed and of no use; a thread that ignores its interruption stays until Nimbus ends.
 */
final class ForeignScheduler implements AutoCloseable {
    private final ForeignClass type;
    private final Map<String, Object> conf;
    private final StormMetricsRegistry registry;
    private final Duration limit;
    private final ExecutorService executor = Executors.newSingleThreadExecutor(this::thread);
    private volatile Thread thread;
    private volatile IScheduler scheduler;

    /** `limit` is for a round, the first with making and preparing the scheduler. */
    ForeignScheduler(ForeignClass type, Map<String, Object> conf, StormMetricsRegistry registry, Duration limit) {
        this.type = type;
        this.conf = conf;
        this.registry = registry;
        this.limit = limit;
    }

    /** `cluster` is a copy: what a failed round did to it is nobody's. */
    void schedule(Topologies topologies, Cluster cluster) throws SchedulerFailed {
        Future<?> round = executor.submit(() -> {
            made().schedule(topologies, cluster);
            return null;
        });
        try {
            round.get(limit.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw hung();
        } catch (ExecutionException e) {
            throw SchedulerFailed.threw(type.name(), thrown(e));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SchedulerFailed(type.name() + " was interrupted: Nimbus is ending");
        }
    }

    /** Lets it clean up, if it is idle, without waiting for it. */
    @Override
    public void close() {
        IScheduler known = scheduler;
        if (known != null && !executor.isShutdown()) {
            executor.submit(known::cleanup);
        }
        executor.shutdown();
    }

    private SchedulerFailed hung() {
        Thread running = thread;
        StackTraceElement[] where = running == null ? new StackTraceElement[0] : running.getStackTrace();
        executor.shutdownNow();
        String at = where.length == 0 ? "" : "; it was at " + where[0];
        return new SchedulerFailed(type.name() + " did not answer within " + limit.toMillis() / 1000.0 + " s" + at, where, null);
    }

    private IScheduler made() throws ReflectiveOperationException {
        if (scheduler == null) {
            IScheduler fresh = type.make();
            fresh.prepare(conf, registry);
            scheduler = fresh;
        }
        return scheduler;
    }

    private static Throwable thrown(ExecutionException e) {
        boolean constructor = e.getCause() instanceof InvocationTargetException && e.getCause().getCause() != null;
        return constructor ? e.getCause().getCause() : e.getCause();
    }

    private Thread thread(Runnable task) {
        Thread made = new Thread(task, "foreign-scheduler");
        made.setDaemon(true);
        made.setContextClassLoader(type.loader());
        thread = made;
        return made;
    }
}
