package barograph.topologies.measure;

import java.util.List;

/** One line of worker samples as docs/contracts.md has it: one column per field, equally long within a group. */
final class WorkerLine {
    private static final int VERSION = 1;

    private WorkerLine() {
    }

    /** Who measured: one Storm worker. */
    record Worker(String machine, int port, long pid, String topology) {
    }

    /** {@code endS} is the end of the interval in epoch seconds, {@code lengthS} how long it was. */
    static String of(Worker worker, long sequence, double endS, double lengthS, List<TaskSample> samples) {
        Json json = new Json().begin()
            .field("v", VERSION).field("t", endS).field("dt_s", lengthS)
            .field("machine", worker.machine()).field("port", worker.port()).field("pid", worker.pid())
            .field("topology", worker.topology()).field("seq", sequence);
        tasks(json, samples);
        streams(json, samples.stream().flatMap(sample -> sample.streams().stream()).toList());
        sources(json, samples.stream().flatMap(sample -> sample.sources().stream()).toList());
        sinks(json, samples.stream().flatMap(sample -> sample.sinks().stream()).toList());
        spouts(json, samples.stream().filter(TaskSample::isSpout).toList());
        gaps(json, samples.stream().flatMap(sample -> sample.gaps().stream()).toList());
        traffic(json, samples.stream().flatMap(sample -> sample.traffic().stream()).toList());
        return json.end().toString();
    }

    private static void tasks(Json json, List<TaskSample> rows) {
        json.key("tasks").begin()
            .column("task", rows, TaskSample::task)
            .column("component", rows, TaskSample::component)
            .column("emitted", rows, TaskSample::emitted)
            .column("transferred", rows, TaskSample::transferred)
            .column("executed", rows, TaskSample::executed)
            .column("execute_ms", rows, TaskSample::executeMs)
            .column("process_ms", rows, TaskSample::processMs)
            .column("queue", rows, TaskSample::queue)
            .column("cpu_ms", rows, TaskSample::cpuMs)
            .column("backpressure_ms", rows, TaskSample::backpressureMs)
            .end();
    }

    private static void streams(Json json, List<TaskSample.StreamSample> rows) {
        if (!rows.isEmpty()) {
            json.key("streams").begin()
                .column("task", rows, TaskSample.StreamSample::task)
                .column("stream", rows, TaskSample.StreamSample::stream)
                .column("emitted", rows, TaskSample.StreamSample::emitted)
                .end();
        }
    }

    private static void sources(Json json, List<TaskSample.SourceSample> rows) {
        if (!rows.isEmpty()) {
            json.key("sources").begin()
                .column("task", rows, TaskSample.SourceSample::task)
                .column("component", rows, TaskSample.SourceSample::component)
                .column("stream", rows, TaskSample.SourceSample::stream)
                .column("executed", rows, TaskSample.SourceSample::executed)
                .column("execute_ms", rows, TaskSample.SourceSample::executeMs)
                .end();
        }
    }

    private static void sinks(Json json, List<TaskSample.SinkSample> rows) {
        if (!rows.isEmpty()) {
            json.key("sinks").begin()
                .column("task", rows, TaskSample.SinkSample::task)
                .column("source_machine", rows, TaskSample.SinkSample::sourceMachine)
                .column("n", rows, row -> row.latency().n())
                .column("sum_ms", rows, row -> row.latency().sumMs())
                .column("max_ms", rows, row -> row.latency().maxMs())
                .column("buckets", rows, row -> row.latency().buckets())
                .column("counts", rows, row -> row.latency().counts())
                .end();
        }
    }

    private static void spouts(Json json, List<TaskSample> rows) {
        if (!rows.isEmpty()) {
            json.key("spouts").begin()
                .column("task", rows, TaskSample::task)
                .column("due", rows, row -> row.emissions().due())
                .column("emitted", rows, TaskSample::emitted)
                .column("behind", rows, row -> row.emissions().behind())
                .column("behind_ms", rows, row -> row.emissions().behindMs())
                .column("missed", rows, row -> row.emissions().missed())
                .column("late", rows, row -> row.emissions().late())
                .end();
        }
    }

    private static void gaps(Json json, List<TaskSample.GapSample> rows) {
        if (!rows.isEmpty()) {
            json.key("gaps").begin()
                .column("task", rows, TaskSample.GapSample::task)
                .column("from_s", rows, TaskSample.GapSample::fromS)
                .column("until_s", rows, TaskSample.GapSample::untilS)
                .column("due", rows, TaskSample.GapSample::due)
                .end();
        }
    }

    private static void traffic(Json json, List<TaskSample.TrafficSample> rows) {
        if (!rows.isEmpty()) {
            json.key("traffic").begin()
                .column("from", rows, TaskSample.TrafficSample::from)
                .column("to", rows, TaskSample.TrafficSample::to)
                .column("n", rows, TaskSample.TrafficSample::n)
                .end();
        }
    }
}
