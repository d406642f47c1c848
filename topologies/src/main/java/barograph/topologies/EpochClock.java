package barograph.topologies;

import java.time.Instant;

/** The machine's wall clock in nanoseconds: due times must mean the same on every machine. */
public final class EpochClock {
    private static final long NANOS_PER_SECOND = 1_000_000_000L;

    private EpochClock() {
    }

    public static long nowNanos() {
        Instant now = Instant.now();
        return now.getEpochSecond() * NANOS_PER_SECOND + now.getNano();
    }

    public static double toMs(long epochNanos) {
        return epochNanos / 1e6;
    }
}
