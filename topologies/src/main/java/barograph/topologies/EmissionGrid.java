package barograph.topologies;

/**
 * The points in time at which a task of a source would emit at one rate.
 *
 * <p>The component's grid has one point every 1 / rate seconds; task i of n owns every n-th point, beginning with the i-th, so
 * that all tasks together are evenly spaced on whatever machines they run, and whenever each of them took to this rate.
 *
 * @param componentRate tuples per second; of 0 nothing is ever due
 * @param originPoints how many points of the component lie before the origin; with a fraction
 */
record EmissionGrid(double componentRate, int taskIndex, int taskCount, long originNanos, double originPoints) {
    private static final double NANOS_PER_SECOND = 1e9;
    /** Grids of tasks that start at different times agree if the rate is a whole number of tuples per this period. */
    private static final long ORIGIN_NANOS = 1_000_000_000_000L;
    /** What two grids that continue each other may differ by: times on their way are of microseconds. */
    private static final double SAME_POINT = 0.5;

    /** Rate in tuples per second of the whole component; {@code aboutNanos}: an epoch time near those that will be asked for. */
    static EmissionGrid at(double componentRate, int taskIndex, int taskCount, long aboutNanos) {
        return new EmissionGrid(componentRate, taskIndex, taskCount, Math.floorDiv(aboutNanos, ORIGIN_NANOS) * ORIGIN_NANOS, 0);
    }

    long dueNanos(long point) {
        if (componentRate == 0) {
            return Long.MAX_VALUE;
        }
        return originNanos + (long) ((point * (double) taskCount + taskIndex - originPoints) * NANOS_PER_SECOND / componentRate);
    }

    /** Whether points at and after that time are numbered as they would be if the other grid went on until then. */
    boolean continues(EmissionGrid other, long atNanos) {
        return originPoints > 0 && Math.abs(componentPoints(atNanos) - other.componentPoints(atNanos)) < SAME_POINT;
    }

    /** Whether nothing ever falls due. */
    boolean isIdle() {
        return componentRate == 0;
    }

    private double componentPoints(long nanos) {
        return originPoints + (nanos - originNanos) * componentRate / NANOS_PER_SECOND;
    }

    /** The number of own points before this time, counted from the origin: also the index of the first one at or after it. */
    long pointsBefore(long nowNanos) {
        double ofTask = (componentPoints(nowNanos) - taskIndex) / taskCount;
        if (componentRate == 0) {
            return Math.max(0, (long) Math.ceil(ofTask));
        }
        long point = Math.max(0, (long) Math.floor(ofTask));
        while (dueNanos(point) < nowNanos) {
            point++;
        }
        while (point > 0 && dueNanos(point - 1) >= nowNanos) {
            point--;
        }
        return point;
    }
}
