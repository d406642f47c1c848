package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WorkerLineTest {
    /** The same lines in both formats, which Python and Spark are held to as well. */
    private static final Path CONTRACT = Path.of("..", "tests", "contract", "worker_lines");
    private static final WorkerLine.Worker WORKER = new WorkerLine.Worker("m2", 6700, 4711, "star-1-1763712300");

    @TempDir
    Path directory;

    private static TaskSample task(int task, String component, Double executeMs, Integer queue, List<TaskSample.SinkSample> sinks) {
        return new TaskSample(task, component, false, 110, 220, 112, executeMs, null, queue, null, null, 20L, null, List.of(),
            List.of(new TaskSample.StreamSample(task, "default", 110)),
            List.of(new TaskSample.SourceSample(task, "spout_1", "default", 100, executeMs, 20L), new TaskSample.SourceSample(task, "spøut", "s", 12, null, 0L)),
            sinks, List.of(new TaskSample.TrafficSample(task, 9, 55)));
    }

    private static TaskSample spout(int task, TaskSample.Emissions emissions, List<TaskSample.GapSample> gaps) {
        return new TaskSample(task, "spout_1", true, 100, 100, 0, 0.0, 0.0, 0, 12.34567, 3.25, null, emissions, gaps, List.of(), List.of(), List.of(), List.of());
    }

    private static List<WorkerLine> lines() {
        SinkLatency.Interval some = new SinkLatency.Interval(405.90049, 31.0, new int[] {492, 633}, new int[] {54, 1});
        SinkLatency.Interval ahead = new SinkLatency.Interval(-12.3456, null, new int[] {-700}, new int[] {3});
        List<TaskSample.SinkSample> sinks = List.of(new TaskSample.SinkSample(9, "m1", some), new TaskSample.SinkSample(9, null, ahead));
        return List.of(
            new WorkerLine(WORKER, 0, 1763712345.0031, 0.9996, List.of(
                task(3, "centre", 903.10049, 5120, List.of()), task(9, "a \"sink\"", null, null, sinks),
                spout(1, new TaskSample.Emissions(75L, 1400L, 14003.0, 0L, 100L), List.of(
                    new TaskSample.GapSample(1, 1763712330.0, 1763712344.25, 1425L), new TaskSample.GapSample(1, null, 1763712344.5, null))))),
            new WorkerLine(WORKER, 1, 1763712346.0, 1.0, List.of(
                spout(1, new TaskSample.Emissions(null, null, null, null, null), List.of()))),
            new WorkerLine(WORKER, 300, 1763712646.0, 1.0, List.of(task(3, "centre", 0.0, 0, List.of()))));
    }

    @Test
    void bothFormatsAreThoseOfTheContract() throws Exception {
        StringBuilder json = new StringBuilder();
        try (SampleFile file = new SampleFile(directory, "m2-6700", 1763712344000L)) {
            for (WorkerLine line : lines()) {
                json.append(line.toJson()).append('\n');
                file.append(line.toAvro());
            }
        }
        Path written = directory.resolve("m2-6700-1763712344000.avro");
        assertEquals(Files.readString(CONTRACT.resolve("posted.jsonl")), json.toString());
        assertArrayEquals(Files.readAllBytes(CONTRACT.resolve("written.avro")), Files.readAllBytes(written));
        assertEquals(lines().size(), AvroLines.of(written).size());
    }
}
