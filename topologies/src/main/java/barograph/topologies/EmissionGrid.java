package barograph.topologies;

/**
 * The points in time at which a task of a source would emit at one rate.
 *
 * <p>The component's grid has one point every 1 / rate seconds; task i of n owns every n-th point, beginning with the i-th, so
 * that all tasks together are evenly spaced on whatever machines they run, and whenever each of them took to this rate.
 */
record EmissionGrid(double componentRate, int taskIndex, int taskCount, long originNanos) {
    private static final double NANOS_PER_SECOND = 1e9;
    /** Grids of tasks that start at different times agree if the rate is a whole number of tuples per this period. */
    private static final long ORIGIN_NANOS = 1_000_000_000_000L;

    /** Rate in tuples per second of the whole component; {@code aboutNanos}: an epoch time near those that will be asked for. */
    static EmissionGrid at(double componentRate, int taskIndex, int taskCount, long aboutNanos) {
        return new EmissionGrid(componentRate, taskIndex, taskCount, Math.floorDiv(aboutNanos, ORIGIN_NANOS) * ORIGIN_NANOS);
    }

    long dueNanos(long point) {
        return originNanos + (long) ((point * (double) taskCount + taskIndex) * NANOS_PER_SECOND / componentRate);
    }

    /** The number of own points before this time, counted from the origin: also the index of the first one at or after it. */
    long pointsBefore(long nowNanos) {
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
