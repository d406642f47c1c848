package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
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
}
