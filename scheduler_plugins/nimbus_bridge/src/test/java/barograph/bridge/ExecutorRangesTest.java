package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Nimbus.computeExecutors cuts a component's sorted tasks with Utils.partitionFixed and keeps first and last. */
class ExecutorRangesTest {

    static Stream<Path> cases() {
        return Cases.named("executor_ranges").stream();
    }

    @ParameterizedTest
    @MethodSource("cases")
    void stormCutsTasksAsTheCasesSay(Path file) {
        JsonNode whole = Cases.read(file);
        if (Cases.WRITE) {
            whole.forEach(one -> ((ObjectNode) one).set("ranges", Cases.JSON.valueToTree(byStorm(one))));
            Cases.write(file, whole);
        }
        assertFalse(whole.isEmpty());
        for (JsonNode one : whole) {
            assertEquals(Cases.JSON.valueToTree(byStorm(one)), one.get("ranges"), one.toString());
        }
    }

    private static List<List<Integer>> byStorm(JsonNode one) {
        List<Integer> tasks = new ArrayList<>();
        one.get("tasks").forEach(task -> tasks.add(task.asInt()));
        return Utils.partitionFixed(one.get("executors").asInt(), tasks).stream()
            .map(part -> List.of(part.get(0), part.get(part.size() - 1))).toList();
    }
}
