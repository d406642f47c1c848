package barograph.topologies;

/**
 * When a task of a source must emit: an open-loop grid that does not care whether the topology keeps up.
 *
 * <p>The component's grid has one point every 1 / rate seconds; task i of n owns every n-th point, beginning with the i-th, so
 * that all tasks together are evenly spaced on whatever machines they run. One thread takes, any thread may ask.
 */
public final class EmissionSchedule {
    private static final double NANOS_PER_SECOND = 1e9;
    /** Grids of tasks that start at different times agree if the rate is a whole number of tuples per this period. */
    private static final long ORIGIN_NANOS = 1_000_000_000_000L;

    private final double componentRate;
    private final int taskIndex;
    private final int taskCount;
    private final long originNanos;
    private final long first;
    private volatile long next;

    /** Rate in tuples per second of the whole component; the first due time is not before {@code startNanos} (epoch). */
    public EmissionSchedule(double componentRate, int taskIndex, int taskCount, long startNanos) {
        if (!(componentRate > 0) || Double.isInfinite(componentRate)) {
            throw new IllegalArgumentException("rate_per_s is " + componentRate + "; it must be a finite number above 0");
        }
        this.componentRate = componentRate;
        this.taskIndex = taskIndex;
        this.taskCount = taskCount;
        this.originNanos = Math.floorDiv(startNanos, ORIGIN_NANOS) * ORIGIN_NANOS;
        this.first = pointsBefore(startNanos);
        this.next = first;
    }

    /** Whether a tuple is due that was not yet taken. */
    public boolean isDue(long nowNanos) {
        return dueNanos(next) <= nowNanos;
    }

    /** Takes the oldest tuple that was not yet taken and returns its due time in epoch nanoseconds. */
    public long take() {
        long taken = next;
        next = taken + 1;
        return dueNanos(taken);
    }

    /** How many tuples fell due since the start, taken or not, before this time. */
    public long dueBefore(long nowNanos) {
        return Math.max(0, pointsBefore(nowNanos) - first);
    }

    /** Age in nanoseconds of the oldest tuple that is due and was not taken; 0 if there is none. */
    public long behindNanos(long nowNanos) {
        return Math.max(0, nowNanos - dueNanos(next));
    }

    private long dueNanos(long point) {
        return originNanos + (long) ((point * (double) taskCount + taskIndex) * NANOS_PER_SECOND / componentRate);
    }

    /** The number of own grid points before this time, counted from the origin: also the index of the first one at or after it. */
    private long pointsBefore(long nowNanos) {
        double slots = (nowNanos - originNanos) * componentRate / NANOS_PER_SECOND;
        long point = Math.max(0, (long) Math.floor((slots - taskIndex) / taskCount));
        while (dueNanos(point) < nowNanos) {
            point++;
        }
        while (point > 0 && dueNanos(point - 1) >= nowNanos) {
            point--;
        }
        return point;
    }
}
