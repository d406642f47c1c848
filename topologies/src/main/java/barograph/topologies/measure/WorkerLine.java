package barograph.topologies.measure;

import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * One line of worker samples as docs/contracts.md has it, described once: as JSON for the policy service, in Avro for the disk.
 *
 * <p>A group has one column per field, all equally long; without rows it is absent. {@code endS} is the end of the interval in epoch
 * seconds, {@code lengthS} how long it was.
 */
record WorkerLine(WorkerLine.Worker worker, long sequence, double endS, double lengthS, List<TaskSample> samples) {
    private static final int JSON_VERSION = 2;
    private static final int AVRO_VERSION = 3;

    // In the order of the schema, worker_line.avsc.
    private static final List<Group<?>> GROUPS = List.of(
        new Group<TaskSample>("tasks", Stream::of, List.of(
            known("task", TaskSample::task),
            known("component", TaskSample::component),
            known("emitted", TaskSample::emitted),
            known("transferred", TaskSample::transferred),
            known("executed", TaskSample::executed),
            optional("execute_ms", TaskSample::executeMs),
            optional("process_ms", TaskSample::processMs),
            optional("queue", TaskSample::queue),
            optional("cpu_ms", TaskSample::cpuMs),
            optional("backpressure_ms", TaskSample::backpressureMs),
            optional("dropped", TaskSample::dropped))),
        new Group<TaskSample.StreamSample>("streams", sample -> sample.streams().stream(), List.of(
            known("task", TaskSample.StreamSample::task),
            known("stream", TaskSample.StreamSample::stream),
            known("emitted", TaskSample.StreamSample::emitted))),
        new Group<TaskSample.SourceSample>("sources", sample -> sample.sources().stream(), List.of(
            known("task", TaskSample.SourceSample::task),
            known("component", TaskSample.SourceSample::component),
            known("stream", TaskSample.SourceSample::stream),
            known("executed", TaskSample.SourceSample::executed),
            optional("execute_ms", TaskSample.SourceSample::executeMs),
            optional("dropped", TaskSample.SourceSample::dropped))),
        new Group<TaskSample.SinkSample>("sinks", sample -> sample.sinks().stream(), List.of(
            known("task", TaskSample.SinkSample::task),
            known("n", row -> row.latency().n()),
            known("sum_ms", row -> row.latency().sumMs()),
            optional("max_ms", row -> row.latency().maxMs()),
            optional("source_machine", TaskSample.SinkSample::sourceMachine),
            known("buckets", row -> row.latency().buckets()),
            known("counts", row -> row.latency().counts()))),
        new Group<TaskSample>("spouts", sample -> Stream.of(sample).filter(TaskSample::isSpout), List.of(
            known("task", TaskSample::task),
            optional("due", row -> row.emissions().due()),
            known("emitted", TaskSample::emitted),
            optional("behind", row -> row.emissions().behind()),
            optional("behind_ms", row -> row.emissions().behindMs()),
            optional("missed", row -> row.emissions().missed()),
            optional("late", row -> row.emissions().late()))),
        new Group<TaskSample.GapSample>("gaps", sample -> sample.gaps().stream(), List.of(
            known("task", TaskSample.GapSample::task),
            optional("from_s", TaskSample.GapSample::fromS),
            known("until_s", TaskSample.GapSample::untilS),
            optional("due", TaskSample.GapSample::due))),
        new Group<TaskSample.TrafficSample>("traffic", sample -> sample.traffic().stream(), List.of(
            known("from", TaskSample.TrafficSample::from),
            known("to", TaskSample.TrafficSample::to),
            known("n", TaskSample.TrafficSample::n))));

    /** Who measured: one Storm worker. */
    record Worker(String machine, int port, long pid, String topology) {
    }

    private record Column<T>(String name, boolean isOptional, Function<T, Object> value) {
    }

    private record Group<T>(String name, Function<TaskSample, Stream<T>> rowsOf, List<Column<T>> columns) {
        private List<T> rows(List<TaskSample> samples) {
            return samples.stream().flatMap(rowsOf).toList();
        }

        private void write(Json json, List<TaskSample> samples) {
            List<T> rows = rows(samples);
            if (!rows.isEmpty()) {
                json.key(name).begin();
                columns.forEach(column -> json.column(column.name(), rows, column.value()));
                json.end();
            }
        }

        private void write(Avro avro, List<TaskSample> samples) {
            List<T> rows = rows(samples);
            if (rows.isEmpty()) {
                avro.absent();
            } else {
                avro.begin();
                columns.forEach(column -> avro.column(rows, column.isOptional(), column.value()));
            }
        }
    }

    private static <T> Column<T> known(String name, Function<T, Object> value) {
        return new Column<>(name, false, value);
    }

    private static <T> Column<T> optional(String name, Function<T, Object> value) {
        return new Column<>(name, true, value);
    }

    String toJson() {
        Json json = new Json().begin()
            .field("v", JSON_VERSION).field("t", endS).field("dt_s", lengthS)
            .field("machine", worker.machine()).field("port", worker.port()).field("pid", worker.pid())
            .field("topology", worker.topology()).field("seq", sequence);
        GROUPS.forEach(group -> group.write(json, samples));
        return json.end().toString();
    }

    /** Without the checksum, which is of the block that the line is in. */
    byte[] toAvro() {
        Avro avro = new Avro()
            .value(AVRO_VERSION).value(endS).value(lengthS)
            .value(worker.machine()).value(worker.port()).value(worker.pid())
            .value(worker.topology()).value(sequence);
        GROUPS.forEach(group -> group.write(avro, samples));
        return avro.toBytes();
    }
}
