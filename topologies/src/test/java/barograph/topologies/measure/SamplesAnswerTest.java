package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class SamplesAnswerTest {
    private static final Path FACTORS = Path.of("../tests/contract/input_rate_factors.json");

    private static SamplesAnswer answer(JsonNode factor) {
        return SamplesAnswer.of("{\"input_rate_factor\": " + factor + "}");
    }

    /** What a plan may have and the service takes, a worker follows; of others there are none (test_input_rate_factors.py). */
    @Test
    void aWorkerFollowsTheFactorsOfPlans() throws Exception {
        JsonNode factors = new ObjectMapper().readTree(FACTORS.toFile());
        for (JsonNode factor : factors.get("allowed")) {
            assertEquals(factor.asDouble(), answer(factor).factor().orElseThrow());
        }
        for (JsonNode factor : factors.get("refused")) {
            assertTrue(answer(factor).factor().isEmpty(), "factor " + factor);
        }
    }
}
