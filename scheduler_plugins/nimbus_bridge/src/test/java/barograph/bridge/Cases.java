package barograph.bridge;

import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** The JSON cases that the Java and the Python tests both read. */
final class Cases {
    static final Path FOLDER = Path.of("../../tests/contract/schedule_cases");
    private static final Path ROUNDS = Path.of("../../tests/contract/round_cases");
    static final ObjectMapper JSON = new ObjectMapper();
    /** `mvn test -Dcases.write=true` records expected values instead of comparing with them. */
    static final boolean WRITE = Boolean.getBoolean("cases.write");

    private Cases() {}

    static List<Path> named(String prefix) {
        return in(FOLDER, prefix);
    }

    static List<Path> ofRounds() {
        return in(ROUNDS, "");
    }

    private static List<Path> in(Path folder, String prefix) {
        try (Stream<Path> files = Files.list(folder)) {
            List<Path> found = files.filter(f -> f.getFileName().toString().startsWith(prefix)).sorted().toList();
            if (found.isEmpty()) {
                throw new IllegalStateException("no case " + prefix + "* in " + folder.toAbsolutePath());
            }
            return found;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A case. Several cases may have one request: they name a file of `requests/`. */
    static JsonNode read(Path file) {
        JsonNode whole = parse(file);
        JsonNode request = whole.path("request");
        if (request.isTextual()) {
            ((ObjectNode) whole).set("request", request(request.asText()));
        }
        return whole;
    }

    static JsonNode request(String name) {
        return parse(FOLDER.resolve("requests").resolve(name + ".json"));
    }

    private static JsonNode parse(Path file) {
        try {
            return JSON.readTree(Files.readString(file));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Records what Storm answers as the case's expected value. */
    static void write(Path file, JsonNode whole) {
        JsonNode request = parse(file).path("request");
        if (request.isTextual()) {
            ((ObjectNode) whole).set("request", request);
        }
        DefaultPrettyPrinter printer = new DefaultPrettyPrinter();
        printer.indentObjectsWith(new DefaultIndenter(" ", "\n"));
        try {
            Files.writeString(file, JSON.writer(printer).writeValueAsString(whole) + "\n");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
