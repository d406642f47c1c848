package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class LatencyBucketsTest {
    /** The edges that Python and Spark are held to as well: [bucket, its first microsecond, its last]. */
    private static final Path EDGES = Path.of("..", "tests", "contract", "latency_buckets.json");

    @Test
    void theEdgesOfBucketsAreThoseOfTheContract() throws Exception {
        JsonNode edges = new ObjectMapper().readTree(Files.readString(EDGES));
        assertTrue(edges.size() > 100);
        for (JsonNode edge : edges) {
            for (int end = 1; end <= 2; end++) {
                assertEquals(edge.get(0).asInt(), LatencyBuckets.of(edge.get(end).asLong()), edge.toString());
            }
            assertEquals(edge.get(0).asInt() - 1, LatencyBuckets.of(edge.get(1).asLong() - 1), "before " + edge);
        }
    }

    @Test
    void whatIsTooLongIsCountedAsTheLongest() {
        assertEquals(LatencyBuckets.EACH_SIDE - 1, LatencyBuckets.of(Long.MAX_VALUE));
        assertEquals(-LatencyBuckets.EACH_SIDE, LatencyBuckets.of(Long.MIN_VALUE));
    }

    @Test
    void countsOfTwoTasksAddUpToThoseOfOne() {
        SinkLatency first = new SinkLatency();
        SinkLatency second = new SinkLatency();
        SinkLatency both = new SinkLatency();
        SplittableRandom random = new SplittableRandom(7);
        for (int i = 0; i < 10_000; i++) {
            double latencyMs = Math.exp(random.nextDouble() * 12) - 2;
            (i % 3 == 0 ? first : second).record(latencyMs);
            both.record(latencyMs);
        }
        long[] apart = new long[2 * LatencyBuckets.EACH_SIDE];
        add(apart, first.take());
        add(apart, second.take());
        long[] together = new long[apart.length];
        add(together, both.take());
        assertArrayEquals(together, apart);
        assertNull(both.take(), "it was taken");
    }

    private static void add(long[] counts, SinkLatency.Interval taken) {
        for (int i = 0; i < taken.buckets().length; i++) {
            counts[taken.buckets()[i] + LatencyBuckets.EACH_SIDE] += taken.counts()[i];
        }
    }
}
