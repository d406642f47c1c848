package barograph.bridge;

import barograph.bridge.InvalidAnswer.Kind;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;

/** What the policy service answers: only what changes. `decisionId` is null where nothing does. */
record Answer(String decisionId, String policy, String reason, Map<String, Change> topologies) {

    record Change(Map<String, Integer> executors, Map<Integer, Slot> placement) {}

    static Answer parse(JsonNode body) throws InvalidAnswer {
        if (body.path("v").asInt() != 1) {
            throw malformed("v is " + body.path("v") + "; allowed is 1");
        }
        Map<String, Change> changes = new TreeMap<>();
        for (Map.Entry<String, JsonNode> entry : object(body, "topologies").properties()) {
            changes.put(entry.getKey(), new Change(executors(entry.getValue()), placement(entry.getValue())));
        }
        return new Answer(text(body, "decision_id"), text(body, "policy"), text(body, "reason"), changes);
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
        return new InvalidAnswer(Kind.MALFORMED, message);
    }
}
