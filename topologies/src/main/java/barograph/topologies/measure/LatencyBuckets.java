package barograph.topologies.measure;

/**
 * Buckets of latencies in whole microseconds: 64 equal ones in each power of two, so that none is wider than 1/64 of its values.
 *
 * <p>A bucket is a number, and a formula gives its bounds: counts of tasks, seconds and runs can be added up. docs/contracts.md has
 * the formula, {@code scheduler_plugins.service.latency_buckets} the same in Python, {@code tests/contract/latency_buckets.json} its edges.
 */
final class LatencyBuckets {
    /** Buckets of latencies from 0 on; there are as many below 0. */
    static final int EACH_SIDE = 2048;
    private static final int BITS = 6;
    /** 38 hours; what is longer counts as that. */
    private static final long LONGEST_MICROS = (1L << 37) - 1;

    private LatencyBuckets() {
    }

    /** From -2048 to 2047. Below 0 (clocks that disagree) the buckets are those of {@code -1 - micros}, mirrored. */
    static int of(long micros) {
        if (micros < 0) {
            return ~of(~micros);
        }
        long bounded = Math.min(micros, LONGEST_MICROS);
        int shift = Math.max(0, Long.SIZE - 1 - Long.numberOfLeadingZeros(bounded | 1) - BITS);
        return (shift << BITS) + (int) (bounded >> shift);
    }
}
