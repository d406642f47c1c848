package barograph.topologies.measure;

import java.util.Map;
import java.util.OptionalDouble;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads the policy service's answer to samples: {@code {"input_rate_factor": 1.5}}. */
final class InputRateAnswer {
    static final String KEY = "input_rate_factor";
    /** Beyond these a grid of nanoseconds has no room for the rate; nobody means them. */
    private static final double LEAST = 1e-6;
    private static final double MOST = 1e6;
    private static final Logger LOG = LoggerFactory.getLogger(InputRateAnswer.class);

    private InputRateAnswer() {
    }

    /** The factor; empty where the answer states none, or none that a rate can be multiplied by. */
    static OptionalDouble factor(String answer) {
        Object stated = JSONValue.parse(answer) instanceof Map<?, ?> fields ? fields.get(KEY) : null;
        if (stated instanceof Number number && number.doubleValue() >= LEAST && number.doubleValue() <= MOST) {
            return OptionalDouble.of(number.doubleValue());
        }
        if (stated != null) {
            LOG.warn("the answer to samples: {} is {}; it must be a number from {} to {}: the input rate stays", KEY, stated, LEAST, MOST);
        }
        return OptionalDouble.empty();
    }
}
