package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What would corrupt Storm does not reach it. Which decisions are allowed is tested with refusal.py. */
class AnswerCheckTest {
    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "star-1-1763712300 | {'executors': {'centre': 5}} | executors of star's centre is 5; allowed are 1 to 4, the number of tasks",
        "star-1-1763712300 | {'executors': {'middle': 2}} | star has no component middle",
        "star-1-1763712300 | {'placement': {'1': 'm3:6701'}} | m3:6701 would belong to linear and to star",
        "star-1-1763712300 | {'placement': {'1': 'm5'}} | placement of task \"1\": slot \"m5\" is not of the form machine:port",
        "star-1-1763712300 | {'placement': {'1': 'm5:6704'}} | task 1 of star is to go to m5:6704, which no living machine offers",
        "star-1-1763712300 | {'placement': {'21': 'm5:6700'}} | star has no task 21",
        "moon-1-1 | {'executors': {'centre': 2}} | topology moon-1-1 is not in the request",
    })
    void whatWouldCorruptStormIsInvalid(String topology, String change, String message) throws Exception {
        JsonNode answer = World.json("{\"v\": 2, \"decision_id\": \"d17\", \"topologies\": {\"" + topology + "\": "
            + change.replace('\'', '"') + "}}");
        Request request = Cases.JSON.treeToValue(Cases.request("star_and_other"), Request.class);
        InvalidAnswer invalid =
            assertThrows(InvalidAnswer.class, () -> AnswerCheck.check(request, Answer.parse(answer)));
        assertEquals(message, invalid.getMessage());
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"v\": 1, \"decision_id\": null}", "{\"v\": 3}", "{}"})
    void anAnswerOfAnotherVersionIsInvalid(String answer) {
        InvalidAnswer invalid = assertThrows(InvalidAnswer.class, () -> Answer.parse(World.json(answer)));
        assertTrue(invalid.getMessage().endsWith("; allowed is 2"), invalid.getMessage());
    }
}
