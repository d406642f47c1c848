package barograph.bridge;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The bridge's events, one JSON object a line: a fallback there makes the run invalid. */
final class BridgeEvents {
    private static final Logger LOG = LoggerFactory.getLogger(BridgeEvents.class);
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Path file;

    BridgeEvents(Path file) {
        this.file = file;
    }

    /** `t`: seconds since the epoch. */
    void fallback(double t, String reason) {
        write(event(t, "fallback", reason));
    }

    /** One of Storm's own schedulers found no slot for some executors: not the bridge's failure, the run stays valid. */
    void unplaced(double t, String topologyId, String reason) {
        Map<String, Object> event = event(t, "unplaced", reason);
        event.put("topology", topologyId);
        write(event);
    }

    /** A scheduler that is not ours failed: nothing is placed in its stead, and the run is over. */
    void schedulerFailed(double t, String reason, List<String> frames) {
        Map<String, Object> event = event(t, "scheduler_failed", reason);
        event.put("frames", frames);
        write(event);
    }

    private static Map<String, Object> event(double t, String kind, String reason) {
        Map<String, Object> event = new LinkedHashMap<>();
        event.put("t", t);
        event.put("kind", kind);
        event.put("reason", reason);
        return event;
    }

    private void write(Map<String, Object> event) {
        try {
            append(JSON.writeValueAsString(event) + "\n");
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    private void append(String line) {
        try {
            Files.writeString(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            LOG.error("cannot write {}: {}; the event was: {}", file, e.toString(), line.strip());
        }
    }
}
