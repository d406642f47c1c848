package barograph.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.utils.Utils;

/** A bridge between a Storm made from JSON, a policy service that answers what it is told, and a Nimbus that records. */
final class World implements Rounds.Service {
    static final String NOTHING =
        "{\"v\": 2, \"decision_id\": null, \"policy\": \"test\", \"reason\": \"\", \"topologies\": {}}";

    static final int FOREIGN_LIMIT_MS = 10_000;
    static final double START_S = 1763712345.0;

    final Map<String, Map<String, Integer>> rebalances = new TreeMap<>();
    /** By topology name, as Nimbus was asked last. */
    final Map<String, Integer> waits = new TreeMap<>();
    final List<Report> reports = new ArrayList<>();
    final List<Request> requests = new ArrayList<>();
    private final Deque<Runnable> background = new ArrayDeque<>();
    private final Path events;
    private final NimbusCalls nimbus;
    private Rounds rounds;
    JsonNode answer = json(NOTHING);
    ServiceFailed serviceFails;
    /** So many reports do not reach the service. */
    int lostReports;
    /** Since START_S. */
    long nanos;

    /** With a Nimbus that takes every rebalance. */
    World(Path events) {
        this(events, null);
    }

    World(Path events, NimbusCalls nimbus) {
        this.events = events;
        this.nimbus = nimbus == null ? this::note : nimbus;
        restart();
    }

    /** A fresh Nimbus on the same machine: what was in the memory of the last one, and what it was about to do, is gone. */
    void restart() {
        background.clear();
        Plans plans = new Plans(events.resolveSibling("plans.json"), Duration.ofSeconds(60), () -> nanos);
        StormSchedulers schedulers = new StormSchedulers(Utils.readDefaultConfig(), new StormMetricsRegistry(),
            events.resolveSibling("foreign"), Duration.ofMillis(FOREIGN_LIMIT_MS));
        rounds = new Rounds(
            this, nimbus, plans, new BridgeEvents(events), schedulers, background::add, () -> START_S + nanos / 1e9);
    }

    /** A round after which Nimbus ends, before it does anything in the background. */
    void lastRound(RequestCluster storm) {
        rounds.round(storm.topologies(), storm.cluster());
        restart();
    }

    /** One scheduling round, then what the bridge does in the background. */
    RequestCluster round(RequestCluster storm) {
        rounds.round(storm.topologies(), storm.cluster());
        while (!background.isEmpty()) {
            background.remove().run();
        }
        return storm;
    }

    /** The round of the rebalances that Nimbus was asked for: their executors changed, their assignments hidden. */
    RequestCluster rebalanceRound(JsonNode request) {
        JsonNode after = request.deepCopy();
        List<String> hidden = new ArrayList<>();
        for (JsonNode topology : after.get("topologies")) {
            Map<String, Integer> executors = rebalances.get(topology.get("name").asText());
            if (executors != null) {
                hidden.add(topology.get("id").asText());
                topology.get("components").forEach(component -> recut((ObjectNode) component, executors));
            }
        }
        answer = json(NOTHING);
        return round(RequestCluster.of(after, hidden));
    }

    static void recut(ObjectNode component, Map<String, Integer> executors) {
        Integer number = executors.get(component.get("name").asText());
        if (number != null) {
            List<Integer> tasks = new ArrayList<>();
            component.get("tasks").forEach(task -> tasks.add(task.asInt()));
            ArrayNode ranges = Cases.JSON.valueToTree(Plan.ranges(tasks, number));
            component.set("executors", ranges);
        }
    }

    static JsonNode json(String text) {
        try {
            return Cases.JSON.readTree(text);
        } catch (com.fasterxml.jackson.core.JsonProcessingException e) {
            throw new IllegalArgumentException(e);
        }
    }

    @Override
    public JsonNode schedule(Request request) throws ServiceFailed {
        requests.add(request);
        if (serviceFails != null) {
            throw serviceFails;
        }
        return answer;
    }

    @Override
    public void applied(Report report) throws ServiceFailed {
        if (lostReports > 0) {
            lostReports--;
            throw new ServiceFailed("applied: no answer within 2.0 s", null);
        }
        reports.add(report);
    }

    private void note(String topologyName, Map<String, Integer> executors, int waitSeconds) {
        rebalances.put(topologyName, executors);
        waits.put(topologyName, waitSeconds);
    }
}
