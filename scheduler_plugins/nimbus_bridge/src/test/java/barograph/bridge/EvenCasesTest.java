package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** even_*.json hold what Storm's own schedulers do with a request; `default` is there only where DefaultScheduler differs. */
class EvenCasesTest {

    static Stream<Path> cases() {
        return Cases.named("even_").stream();
    }

    @ParameterizedTest
    @MethodSource("cases")
    void stormPlacesAsTheCaseSays(Path file) {
        JsonNode whole = Cases.read(file);
        JsonNode even = placed(whole.get("request"), new EvenScheduler());
        JsonNode byDefault = placed(whole.get("request"), new DefaultScheduler());
        if (Cases.WRITE) {
            ((ObjectNode) whole).set("expected", even);
            ((ObjectNode) whole).remove("default");
            if (!even.equals(byDefault)) {
                ((ObjectNode) whole).set("default", byDefault);
            }
            Cases.write(file, whole);
        }
        even.forEach(topology -> assertFalse(topology.isEmpty()));
        assertEquals(whole.get("expected"), even);
        assertEquals(whole.has("default") ? whole.get("default") : even, byDefault);
    }

    private static JsonNode placed(JsonNode request, IScheduler scheduler) {
        RequestCluster storm = RequestCluster.of(request);
        scheduler.schedule(storm.topologies(), storm.cluster());
        Map<String, Map<String, String>> placed = new TreeMap<>();
        storm.topologies().forEach(topology -> placed.put(topology.getId(), inTaskOrder(storm.placement(topology.getId()))));
        return Cases.JSON.valueToTree(placed);
    }

    private static Map<String, String> inTaskOrder(Map<String, String> placement) {
        Map<String, String> sorted = new TreeMap<>((a, b) -> Integer.compare(Integer.parseInt(a), Integer.parseInt(b)));
        sorted.putAll(placement);
        return sorted;
    }
}
