package barograph.topologies.measure;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;

/** Workers' files as Avro's own reader reads them; a group that is absent is left out, as in JSON. */
public final class AvroLines {
    private AvroLines() {
    }

    /** By file; of one that was just made there is nothing yet. */
    public static Map<String, List<JsonNode>> inFolder(Path folder) throws IOException {
        Map<String, List<JsonNode>> lines = new TreeMap<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                lines.put(file.getFileName().toString(), Files.size(file) == 0 ? List.of() : of(file));
            }
        }
        return lines;
    }

    static List<JsonNode> of(Path file) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        try (DataFileReader<GenericRecord> reader = new DataFileReader<>(file.toFile(), new GenericDatumReader<>())) {
            for (GenericRecord record : reader) {
                ObjectNode line = (ObjectNode) new ObjectMapper().readTree(record.toString());
                line.properties().removeIf(field -> field.getValue().isNull() || field.getKey().equals("checksum"));
                lines.add(line);
            }
        }
        return lines;
    }
}
