package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;

import barograph.topologies.EmissionSchedule;
import barograph.topologies.Resumption;
import barograph.topologies.Resumption.OnRestart;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The cases that Python's tests make the policy service answer: the worker reads the answer and writes the line. */
class EmissionCasesTest {
    private static final long SECOND = 1_000_000_000L;
    private static final Path FOLDER = Path.of("../tests/contract/emission_cases");

    @ParameterizedTest
    @ValueSource(strings = {"catch_up", "skip", "course"})
    void aSourceGoesOnWithWhatTheServiceAnswers(String name) throws Exception {
        JsonNode wanted = new ObjectMapper().readTree(FOLDER.resolve(name + ".json").toFile());
        JsonNode source = wanted.get("source");
        JsonNode line = wanted.get("line");
        SamplesAnswer answer = SamplesAnswer.of(wanted.get("answer").toString());
        List<TaskCounters> executor = new CopyOnWriteArrayList<>();
        TaskCounters counters = new TaskCounters(
            new TaskCounters.Identity(source.get("task").asInt(), "spout", line.get("topology").asText(), 6700, true, false, false, false),
            List.of(new TaskCounters.Stream("default")), List.of(), 0, executor);
        executor.add(counters);
        counters.inputRate(answer.factor().orElseThrow());
        if (answer.rates() != null) {
            counters.inputRates(answer.rates().of(counters.component));
        }
        counters.emissionRecords(answer.records());
        counters.sourceFollows(Resumption.of(
            new Resumption.Source(counters.task, counters.component, source.get("rate_per_s").asDouble(), source.get("task_index").asInt(), source.get("task_count").asInt()),
            counters.emissionRecords(), OnRestart.of(source.get("on_restart").asText()), nanos(wanted.get("asked_s"))));
        TaskSample sample = TaskSample.take(counters, nanos(line.get("t")), 0, null, null);
        WorkerLine.Worker worker = new WorkerLine.Worker("m1", 6700, 1, counters.topology);
        JsonNode written = new ObjectMapper().readTree(new WorkerLine(worker, 0, line.get("t").asDouble(), 1, List.of(sample)).toJson());
        for (String group : List.of("spouts", "gaps")) {
            assertEquals(line.get(group), written.get(group));
        }
    }

    @Test
    void aSourceFollowsTheCourseThatTheServiceAnswers() throws Exception {
        for (JsonNode wanted : new ObjectMapper().readTree(FOLDER.resolveSibling("course_cases.json").toFile())) {
            JsonNode source = wanted.get("source");
            long now = nanos(wanted.get("until_s")) - wanted.get("due").size() * SECOND;
            EmissionSchedule schedule = new EmissionSchedule(
                source.get("rate_per_s").asDouble(), source.get("task_index").asInt(), source.get("task_count").asInt(), now);
            List<Integer> due = new ArrayList<>();
            for (; now < nanos(wanted.get("until_s")); now += SECOND) {
                for (JsonNode step : wanted.get("steps")) {
                    if (step.has("answer") && nanos(step.get("t")) >= now && nanos(step.get("t")) < now + SECOND) {
                        SamplesAnswer answer = SamplesAnswer.of(step.get("answer").toString());
                        schedule.follow(answer.rates().of(source.get("component").asText()), nanos(step.get("t")));
                    }
                }
                due.add((int) schedule.countDue(now + SECOND));
            }
            assertEquals(wanted.get("due").toString(), due.toString().replace(" ", ""), wanted.get("what").asText());
        }
    }

    private static long nanos(JsonNode seconds) {
        return Math.round(seconds.asDouble() * 1e9);
    }
}
