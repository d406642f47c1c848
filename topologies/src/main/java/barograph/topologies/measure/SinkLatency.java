package barograph.topologies.measure;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/** Latencies at a sink task of the tuples that come from one machine: counts by bucket, their sum and the largest, in microseconds. */
final class SinkLatency {
    private static final double MICROS_PER_MS = 1000.0;

    /** One interval; of {@code buckets} only those that hold a tuple, in their order. {@code maxMs} is null where it was taken before. */
    record Interval(double sumMs, Double maxMs, int[] buckets, int[] counts) {
        long n() {
            long n = 0;
            for (int count : counts) {
                n += count;
            }
            return n;
        }
    }

    private final AtomicIntegerArray counts = new AtomicIntegerArray(2 * LatencyBuckets.EACH_SIDE);
    private final AtomicLong sumMicros = new AtomicLong();
    private final AtomicLong maxMicros = new AtomicLong(Long.MIN_VALUE);

    /** A negative latency (clocks that disagree) has buckets of its own. */
    void record(double latencyMs) {
        long micros = Math.round(latencyMs * MICROS_PER_MS);
        sumMicros.getAndAdd(micros);
        if (micros > maxMicros.get()) {
            maxMicros.accumulateAndGet(micros, Math::max);
        }
        counts.getAndIncrement(LatencyBuckets.of(micros) + LatencyBuckets.EACH_SIDE);
    }

    /** What was recorded since the last call; null for nothing. What is recorded meanwhile may stay for the next one. */
    Interval take() {
        int[] buckets = new int[filled()];
        int[] taken = new int[buckets.length];
        if (buckets.length == 0) {
            return null;
        }
        for (int i = 0, found = 0; found < buckets.length; i++) {
            if (counts.get(i) != 0) {
                buckets[found] = i - LatencyBuckets.EACH_SIDE;
                taken[found++] = counts.getAndSet(i, 0);
            }
        }
        double sumMs = sumMicros.getAndSet(0) / MICROS_PER_MS;
        long max = maxMicros.getAndSet(Long.MIN_VALUE);
        return new Interval(sumMs, max == Long.MIN_VALUE ? null : Double.valueOf(max / MICROS_PER_MS), buckets, taken);
    }

    private int filled() {
        int filled = 0;
        for (int i = 0; i < counts.length(); i++) {
            filled += counts.get(i) == 0 ? 0 : 1;
        }
        return filled;
    }
}
