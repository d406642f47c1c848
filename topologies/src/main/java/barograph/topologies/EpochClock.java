package barograph.topologies;

import java.time.Instant;
import java.util.function.LongSupplier;

/**
 * Epoch time of this worker in nanoseconds: due times must mean the same on every machine.
 *
 * <p>The wall clock is read once, when the worker begins; from then on time passes as the monotonic clock says. It never steps, so
 * no interval is negative and nobody sleeps until a time that is gone. NTP slews both clocks alike; only a step keeps them apart.
 */
public final class EpochClock {
    private static final long NANOS_PER_SECOND = 1_000_000_000L;
    /** A thread may lose its CPU between the two clocks: the round that took least counts. */
    private static final int ROUNDS = 50;
    private static final long SHORT_NANOS = 2_000;
    private static final EpochClock WORKER = new EpochClock(EpochClock::wallNanos, System::nanoTime);

    private final LongSupplier monotonic;
    private final long offsetNanos;

    EpochClock(LongSupplier wall, LongSupplier monotonic) {
        this.monotonic = monotonic;
        long offset = 0;
        long shortest = Long.MAX_VALUE;
        for (int round = 0; round < ROUNDS && shortest > SHORT_NANOS; round++) {
            long before = monotonic.getAsLong();
            long epoch = wall.getAsLong();
            long took = monotonic.getAsLong() - before;
            if (took < shortest) {
                shortest = took;
                offset = epoch - before - took / 2;
            }
        }
        this.offsetNanos = offset;
    }

    long now() {
        return offsetNanos + monotonic.getAsLong();
    }

    /** The same epoch for all of the worker. */
    public static long nowNanos() {
        return WORKER.now();
    }

    public static double toMs(long epochNanos) {
        return epochNanos / 1e6;
    }

    private static long wallNanos() {
        Instant now = Instant.now();
        return now.getEpochSecond() * NANOS_PER_SECOND + now.getNano();
    }
}
