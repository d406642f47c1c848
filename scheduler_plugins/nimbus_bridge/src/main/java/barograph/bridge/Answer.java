package barograph.bridge;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What the policy service answers: only what changes.
 *
 * @param decisionId null where nothing changes
 * @param release machines that may leave once the decision is applied
 * @param scheduler one of Storm's own or a foreign one that places in this round, or null
 * @param rebalance ids of topologies for that scheduler to place anew
 * @param waitSeconds that Nimbus waits before it rebalances, with the topology deactivated
 */
record Answer(String decisionId, String policy, String reason, Map<String, Change> topologies, List<String> release,
              Scheduler scheduler, List<String> rebalance, int waitSeconds) {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeReference<Map<String, Object>> CONF = new TypeReference<>() {};

    record Change(Map<String, Integer> executors, Map<Integer, Slot> placement) {}

    /** `conf` is laid over Nimbus' own; `className` is of a foreign one, else null. */
    record Scheduler(String name, String className, Map<String, Object> conf) {
        static final String FOREIGN = "foreign";

        boolean foreign() {
            return name.equals(FOREIGN);
        }

        /** In words. */
        String called() {
            return foreign() ? className : "Storm's " + name + " scheduler";
        }
    }

    static Answer parse(JsonNode body) throws InvalidAnswer {
        if (body.path("v").asInt() != Request.VERSION) {
            throw malformed("v is " + body.path("v") + "; allowed is " + Request.VERSION);
        }
        Map<String, Change> changes = new TreeMap<>();
        for (Map.Entry<String, JsonNode> entry : object(body, "topologies").properties()) {
            changes.put(entry.getKey(), new Change(executors(entry.getValue()), placement(entry.getValue())));
        }
        return new Answer(text(body, "decision_id"), text(body, "policy"), text(body, "reason"), changes,
            texts(body, "release"), scheduler(body), texts(body, "rebalance"), waitSeconds(body));
    }

    private static Scheduler scheduler(JsonNode body) throws InvalidAnswer {
        if (body.path("scheduler").isMissingNode() || body.path("scheduler").isNull()) {
            return null;
        }
        String name = text(object(body, "scheduler"), "name");
        if (name == null) {
            throw malformed("scheduler has no name; known are " + StormSchedulers.names());
        }
        return new Scheduler(name, text(body.get("scheduler"), "class_name"), JSON.convertValue(object(body.get("scheduler"), "conf"), CONF));
    }

    private static int waitSeconds(JsonNode body) throws InvalidAnswer {
        JsonNode found = body.path("wait_s");
        if (!(found.isMissingNode() || found.isInt())) {
            throw malformed("wait_s is " + found + "; a whole number is allowed");
        }
        return found.asInt();
    }

    private static Map<String, Integer> executors(JsonNode change) throws InvalidAnswer {
        Map<String, Integer> executors = new TreeMap<>();
        for (Map.Entry<String, JsonNode> entry : object(change, "executors").properties()) {
            if (!entry.getValue().isInt()) {
                throw malformed("executors of " + entry.getKey() + " is " + entry.getValue() + "; a whole number is allowed");
            }
            executors.put(entry.getKey(), entry.getValue().asInt());
        }
        return executors;
    }

    private static Map<Integer, Slot> placement(JsonNode change) throws InvalidAnswer {
        Map<Integer, Slot> placement = new TreeMap<>();
        Iterator<Map.Entry<String, JsonNode>> entries = object(change, "placement").properties().iterator();
        while (entries.hasNext()) {
            Map.Entry<String, JsonNode> entry = entries.next();
            try {
                placement.put(Integer.parseInt(entry.getKey()), Slot.parse(entry.getValue().asText()));
            } catch (IllegalArgumentException e) {
                throw malformed("placement of task \"" + entry.getKey() + "\": " + e.getMessage());
            }
        }
        return placement;
    }

    /** The object of that name; empty where it is absent. */
    private static JsonNode object(JsonNode parent, String name) throws InvalidAnswer {
        JsonNode found = parent.path(name);
        if (!parent.isObject() || !(found.isObject() || found.isMissingNode())) {
            throw malformed(name + " is " + found + "; an object is allowed");
        }
        return found;
    }

    private static List<String> texts(JsonNode body, String name) throws InvalidAnswer {
        JsonNode found = body.path(name);
        if (!(found.isMissingNode() || found.isArray())) {
            throw malformed(name + " is " + found + "; a list of texts is allowed");
        }
        List<String> texts = new ArrayList<>();
        for (JsonNode element : found) {
            if (!element.isTextual()) {
                throw malformed(name + " has " + element + "; a text is allowed");
            }
            texts.add(element.asText());
        }
        return texts;
    }

    private static String text(JsonNode body, String name) throws InvalidAnswer {
        JsonNode found = body.path(name);
        if (found.isMissingNode() || found.isNull()) {
            return null;
        }
        if (!found.isTextual()) {
            throw malformed(name + " is " + found + "; a text is allowed");
        }
        return found.asText();
    }

    private static InvalidAnswer malformed(String message) {
        return new InvalidAnswer(message);
    }
}
