package barograph.topologies;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;

/** What one tuple costs a bolt. The papers' authors slept for some months and burned CPU in others, so both exist. */
public enum CostModel {
    /** Costs nothing. */
    NONE {
        @Override
        public void spend(long nanos) {
        }
    },
    /** Waits without using the CPU, so that the cost is the same on a machine of any speed. */
    SLEEP {
        @Override
        public void spend(long nanos) {
            long end = System.nanoTime() + nanos;
            for (long left = nanos; left > 0 && !Thread.currentThread().isInterrupted(); left = end - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
        }
    },
    /** Burns CPU until this thread was on a core for that long: a throttled machine takes longer. */
    BUSY {
        @Override
        public void spend(long nanos) {
            long end = THREADS.getCurrentThreadCpuTime() + nanos;
            while (THREADS.getCurrentThreadCpuTime() < end && !Thread.currentThread().isInterrupted()) {
                Thread.onSpinWait();
            }
        }
    };

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    /** Spends the cost of one tuple; returns early only when the thread is interrupted. */
    public abstract void spend(long nanos);

    /** Reads {@code none}, {@code sleep} or {@code busy}. */
    public static CostModel of(String name) {
        for (CostModel model : values()) {
            if (model.name().toLowerCase(Locale.ROOT).equals(name)) {
                return model;
            }
        }
        throw new IllegalArgumentException("cost_model is '" + name + "'; allowed are none, sleep, busy");
    }
}
