package barograph.bridge;

import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** The JSON cases that the Java and the Python tests both read. */
final class Cases {
    static final Path FOLDER = Path.of("../../tests/contract/schedule_cases");
    static final ObjectMapper JSON = new ObjectMapper();
    /** `mvn test -Dcases.write=true` records expected values instead of comparing with them. */
    static final boolean WRITE = Boolean.getBoolean("cases.write");

    private Cases() {}

    static List<Path> named(String prefix) {
        try (Stream<Path> files = Files.list(FOLDER)) {
            List<Path> found = files.filter(f -> f.getFileName().toString().startsWith(prefix)).sorted().toList();
            if (found.isEmpty()) {
                throw new IllegalStateException("no case " + prefix + "* in " + FOLDER.toAbsolutePath());
            }
            return found;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static JsonNode read(Path file) {
        try {
            return JSON.readTree(Files.readString(file));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Records what Storm answers as the case's expected value. */
    static void write(Path file, JsonNode whole) {
        DefaultPrettyPrinter printer = new DefaultPrettyPrinter();
        printer.indentObjectsWith(new DefaultIndenter(" ", "\n"));
        try {
            Files.writeString(file, JSON.writer(printer).writeValueAsString(whole) + "\n");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
