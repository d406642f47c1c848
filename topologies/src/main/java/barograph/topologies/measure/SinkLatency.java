package barograph.topologies.measure;

import java.util.concurrent.atomic.AtomicLong;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.Recorder;

/** Latencies at a sink: sum in whole microseconds, percentiles within 1 % from a histogram of microseconds. */
final class SinkLatency {
    private static final int SIGNIFICANT_DIGITS = 2;
    private static final double MICROS_PER_MS = 1000.0;

    /** One interval, in ms; everything but the sum is null where nothing was recorded. */
    record Interval(long count, double sumMs, Double maxMs, Double p50Ms, Double p95Ms, Double p99Ms) {
    }

    private final Recorder recorder = new Recorder(SIGNIFICANT_DIGITS);
    private final AtomicLong sumMicros = new AtomicLong();
    private Histogram reused;

    /** A negative latency (clocks that disagree) keeps its sign in the sum and counts as 0 in the percentiles. */
    void record(double latencyMs) {
        long micros = Math.round(latencyMs * MICROS_PER_MS);
        recorder.recordValue(Math.max(0L, micros));
        sumMicros.getAndAdd(micros);
    }

    /** What was recorded since the last call. */
    Interval take() {
        reused = recorder.getIntervalHistogram(reused);
        double sum = sumMicros.getAndSet(0) / MICROS_PER_MS;
        if (reused.getTotalCount() == 0) {
            return new Interval(0, sum, null, null, null, null);
        }
        double max = reused.getMaxValue() / MICROS_PER_MS;
        return new Interval(reused.getTotalCount(), sum, max, percentile(50), percentile(95), percentile(99));
    }

    private double percentile(double share) {
        return reused.getValueAtPercentile(share) / MICROS_PER_MS;
    }
}
