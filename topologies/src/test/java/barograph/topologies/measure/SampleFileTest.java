package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SampleFileTest {
    @TempDir
    Path directory;

    @Test
    void appendsAcrossRestarts() throws IOException {
        Path path = directory.resolve("new/m1-6700.jsonl");
        for (String line : List.of("{\"a\": 1}", "{\"a\": 2}")) {
            try (SampleFile file = new SampleFile(path)) {
                file.append(line);
            }
        }
        assertEquals("{\"a\": 1}\n{\"a\": 2}\n", Files.readString(path));
    }

    @Test
    void aHalfLineOfAKilledWorkerDamagesNoOther() throws IOException {
        Path path = directory.resolve("m1-6700.jsonl");
        Files.writeString(path, "{\"a\": 1}\n{\"a\": 2, \"b");
        try (SampleFile file = new SampleFile(path)) {
            file.append("{\"a\": 3}");
            file.append("{\"a\": 4}");
        }
        assertEquals(List.of("{\"a\": 1}", "{\"a\": 2, \"b", "{\"a\": 3}", "{\"a\": 4}"), Files.readAllLines(path));
    }

    @Test
    void saysThatItCannotWriteAndTriesAgain() throws IOException {
        Path blocker = directory.resolve("workers");
        Files.writeString(blocker, "a file where the directory should be");
        try (SampleFile file = new SampleFile(blocker.resolve("m1-6700.jsonl"))) {
            assertThrows(IOException.class, () -> file.append("{}"));
            Files.delete(blocker);
            file.append("{}");
        }
        assertEquals("{}\n", Files.readString(blocker.resolve("m1-6700.jsonl")));
    }
}
