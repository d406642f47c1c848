package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class JsonTest {
    @ParameterizedTest
    @CsvSource({"0, 0.0", "-0.0001, 0.0", "1.5, 1.5", "0.05, 0.05", "903.1004, 903.1", "1763712345.003, 1763712345.003", "-12.3456, -12.346",
        "NaN, null", "Infinity, null"})
    void decimalsAreShort(double value, String expected) {
        assertEquals("{\"n\": " + expected + "}", new Json().begin().field("n", value).end().toString());
    }

    @Test
    void anyNameSurvives() throws Exception {
        String name = "a \"quoted\" \\ name\n\u0001é";
        String text = new Json().begin().field(name, name).key("in").begin().end().column("c", Arrays.asList(1, null), n -> n).end().toString();
        assertEquals(name, new ObjectMapper().readTree(text).get(name).asText());
        assertEquals("[1,null]", new ObjectMapper().readTree(text).get("c").toString());
    }
}
