package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class SampleFileTest {
    private static final long BEGIN_MS = 1763712300123L;
    private static final String NAME = "m1-6700-1763712300123.avro";

    @TempDir
    Path directory;

    private static byte[] line(int sequence) {
        return new WorkerLine(new WorkerLine.Worker("m1", 6700, 4711, "star-1-1"), sequence, 1763712345.5, 1, List.of()).toAvro();
    }

    private static List<Integer> sequences(Path file) throws IOException {
        return AvroLines.of(file).stream().map(line -> line.get("seq").asInt()).toList();
    }

    private SampleFile file(Path folder) {
        return new SampleFile(folder, "m1-6700", BEGIN_MS);
    }

    @Test
    void aProcessHasAFileOfItsOwn() throws IOException {
        try (SampleFile older = file(directory)) {
            older.append(line(0));
        }
        byte[] before = Files.readAllBytes(directory.resolve(NAME));
        try (SampleFile newer = file(directory)) {
            newer.append(line(7));
        }
        assertArrayEquals(before, Files.readAllBytes(directory.resolve(NAME)));
        assertEquals(List.of(7), sequences(directory.resolve("m1-6700-1763712300124.avro")));
    }

    @Test
    void itGoesOnInItsFileAfterItWasClosed() throws IOException {
        SampleFile file = file(directory);
        for (int sequence = 0; sequence < 3; sequence++) {
            file.append(line(sequence));
            file.close();
        }
        assertEquals(Map.of(NAME, 3), Map.of(NAME, AvroLines.inFolder(directory).get(NAME).size()));
    }

    /** No file of the process may have more than 6 kB, so a block is cut in the middle; then there is room again. */
    @Test
    void aFullDiskCostsWhatIsWrittenMeanwhileAndNothingElse() throws Exception {
        String classes = String.join(":", classesOf(SampleFile.class), classesOf(SampleFileTest.class));
        Process process = new ProcessBuilder("bash", "-c", "ulimit -S -f 6; exec \"$0\" \"$@\"",
            Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-XX:-UsePerfData", "-Xshare:auto", "-cp", classes,
            Writing.class.getName(), directory.toString()).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader said = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            int written = Integer.parseInt(said.readLine());
            assertTrue(written > 10, "so many lines have room: " + written);
            assertEquals(written, sequences(directory.resolve(NAME)).size());
            long whole = Files.size(directory.resolve(NAME));
            assertTrue(whole < 6144 && whole + line(0).length > 6100, "cut back to whole blocks: " + whole);
            new ProcessBuilder("prlimit", "--pid", Long.toString(process.pid()), "--fsize=unlimited").inheritIO().start().waitFor();
            process.getOutputStream().write('\n');
            process.getOutputStream().flush();
            assertEquals(0, process.waitFor());
            List<Integer> sequences = sequences(directory.resolve(NAME));
            assertEquals(written + 1, sequences.size());
            assertEquals(written + 2, sequences.get(written), "what was written while it was full is lost");
        } finally {
            process.destroyForcibly();
        }
    }

    private static String classesOf(Class<?> type) throws Exception {
        return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
    }

    /** Writes until it cannot, twice, says how many lines that were, waits for a word, and writes another one. */
    static final class Writing {
        private Writing() {
        }

        public static void main(String[] arguments) throws IOException {
            SampleFile file = new SampleFile(Path.of(arguments[0]), "m1-6700", BEGIN_MS);
            int sequence = 0;
            try {
                while (true) {
                    file.append(line(sequence));
                    sequence++;
                }
            } catch (IOException full) {
                assertThrows(file, sequence + 1);
            }
            System.out.println(sequence);
            System.in.read();
            file.append(line(sequence + 2));
        }

        private static void assertThrows(SampleFile file, int sequence) {
            try {
                file.append(line(sequence));
                throw new IllegalStateException("there was room");
            } catch (IOException expected) {
                return;
            }
        }
    }
}
