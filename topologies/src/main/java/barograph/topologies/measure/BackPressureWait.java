package barograph.topologies.measure;

import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.policy.WaitStrategyProgressive;

/**
 * Storm's own wait under back-pressure, timed; goes under {@code topology.backpressure.wait.strategy}.
 *
 * <p>In Storm 2.8 no {@code emit} blocks: what a full queue does not take stays with the executor, which then neither executes nor
 * asks its spouts for tuples, but tries again and waits here in between. The time is kept by thread, for Storm shares an instance
 * between threads; {@link TaskCounters} takes that of its executor's. A wait is at most Storm's setting, 1 ms by default, and what the
 * kernel adds where the machine has used up its CPU; it counts where it ends.
 */
public final class BackPressureWait extends WaitStrategyProgressive {
    private static final ThreadLocal<AtomicLong> WAITED_NANOS = ThreadLocal.withInitial(AtomicLong::new);

    static boolean isSetIn(Map<String, Object> conf) {
        return BackPressureWait.class.getName().equals(conf.get(Config.TOPOLOGY_BACKPRESSURE_WAIT_STRATEGY));
    }

    /** How long this thread has waited: any thread may read it, and take out what it has read. */
    static AtomicLong waitedNanos() {
        return WAITED_NANOS.get();
    }

    @Override
    public int idle(int idleCounter) throws InterruptedException {
        long begin = System.nanoTime();
        try {
            return super.idle(idleCounter);
        } finally {
            WAITED_NANOS.get().addAndGet(System.nanoTime() - begin);
        }
    }
}
