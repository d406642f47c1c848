package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.EmissionSchedule;
import barograph.topologies.EpochClock;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class WorkerSamplerTest {
    private static final int LAST_TASK = 9;

    @TempDir
    Path directory;

    private Settings settings(URI service) {
        return new Settings("m\"1", directory, service, null, null, Duration.ofSeconds(1));
    }

    private static TaskCounters bolt(int task, boolean isSink, boolean isAcked, List<TaskCounters> executor) {
        TaskCounters counters = new TaskCounters(
            new TaskCounters.Identity(task, "bolt", "star-1-1", 6700, false, isSink, isAcked),
            List.of(new TaskCounters.Stream("default")),
            List.of(new TaskCounters.Source("spout", "default", true)), LAST_TASK, executor);
        executor.add(counters);
        return counters;
    }

    private static TaskCounters spout(int task) {
        List<TaskCounters> executor = new CopyOnWriteArrayList<>();
        TaskCounters counters = new TaskCounters(
            new TaskCounters.Identity(task, "spout", "star-1-1", 6700, true, false, false),
            List.of(new TaskCounters.Stream("default")), List.of(), 0, executor);
        executor.add(counters);
        return counters;
    }

    private static TaskCounters bolt(int task, boolean isSink) {
        return bolt(task, isSink, false, new CopyOnWriteArrayList<>());
    }

    private List<JsonNode> lines() throws Exception {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(directory.resolve("m\"1-6700.jsonl"))) {
            lines.add(new ObjectMapper().readTree(line));
        }
        return lines;
    }

    private static long total(List<JsonNode> lines, String group, String column) {
        long total = 0;
        for (JsonNode line : lines) {
            for (JsonNode value : line.path(group).path(column)) {
                total += value.asLong();
            }
        }
        return total;
    }

    private static void assertColumnsAreEquallyLong(JsonNode line) {
        for (String group : List.of("tasks", "streams", "sources", "sinks", "spouts", "traffic")) {
            List<Integer> lengths = new ArrayList<>();
            line.path(group).forEach(column -> lengths.add(column.size()));
            assertTrue(lengths.stream().distinct().count() <= 1, group + " of " + line);
        }
    }

    @Test
    void aLineHoldsWhatHappenedSinceTheLastOne() throws Exception {
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> 7);
        List<TaskCounters> executor = new CopyOnWriteArrayList<>();
        TaskCounters busy = bolt(3, false, true, executor);
        TaskCounters idle = bolt(4, false, true, executor);
        TaskCounters sink = bolt(5, true);
        List.of(busy, idle, sink).forEach(sampler::add);
        busy.emitted("default", Arrays.asList(5, 6));
        busy.emitted("default", Arrays.asList((Integer) null));
        busy.emitted("__ack_ack", List.of(1));
        busy.executedIn(2_500_000);
        busy.executed("spout", "default", null, 3L);
        busy.executed("spout", "default", null, 4L);
        busy.executed("__system", "__tick", null, 1L);
        long executing = System.nanoTime();
        sink.executed("spout", "default", EpochClock.toMs(EpochClock.nowNanos()) - 50.0, 0L);
        double executedInMs = (System.nanoTime() - executing) / 1e6;
        sampler.sample();
        sampler.sample();
        JsonNode first = lines().get(0);
        assertColumnsAreEquallyLong(first);
        assertEquals("m\"1", first.get("machine").asText());
        assertEquals("[2,0,0]", first.at("/tasks/emitted").toString());
        assertEquals("[2,0,0]", first.at("/tasks/transferred").toString());
        assertEquals("[2,0,1]", first.at("/tasks/executed").toString());
        assertEquals(6.5, first.at("/tasks/execute_ms/0").asDouble());
        assertEquals("[4,3,7]", first.at("/tasks/queue").toString());
        assertEquals("[0.0,0.0,null]", first.at("/tasks/process_ms").toString());
        assertEquals("[5]", first.at("/sinks/task").toString());
        assertEquals(50.0, first.at("/sinks/p99_ms/0").asDouble(), 5 + 1.1 * executedInMs);
        assertEquals("{\"from\":[3,3],\"to\":[5,6],\"n\":[1,1]}", first.get("traffic").toString());
        assertFalse(first.has("spouts"));
        JsonNode second = lines().get(1);
        assertColumnsAreEquallyLong(second);
        assertEquals(1, second.get("seq").asInt());
        assertEquals("[0,0,0]", second.at("/tasks/executed").toString());
        assertEquals("[null]", second.at("/sinks/p50_ms").toString());
        assertFalse(second.has("traffic"));
    }

    @Test
    void whatNobodyTimedIsNullAndASampleIsScaledUp() throws Exception {
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> null);
        TaskCounters counters = bolt(3, false);
        sampler.add(counters);
        counters.executed("spout", "default", null, -1L);
        sampler.sample();
        counters.executed("spout", "default", null, 6L);
        counters.executed("spout", "default", null, null);
        sampler.sample();
        assertTrue(lines().get(0).at("/tasks/execute_ms/0").isNull());
        assertTrue(lines().get(0).at("/sources/execute_ms/0").isNull());
        assertTrue(lines().get(0).at("/tasks/queue/0").isNull());
        assertEquals(12.0, lines().get(1).at("/tasks/execute_ms/0").asDouble());
    }

    @Test
    void sourcesSayWhatWasDueAndHowFarTheyAreBehind() throws Exception {
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> 0);
        TaskCounters late = spout(1);
        TaskCounters free = spout(2);
        TaskCounters foreign = spout(6);
        List.of(late, free, foreign).forEach(sampler::add);
        late.sourceFollows(new EmissionSchedule(100, 0, 1, EpochClock.nowNanos()));
        free.sourceIsUnthrottled();
        free.emitted("default", List.of(3));
        foreign.emitted("default", List.of(3));
        Thread.sleep(300);
        sampler.sample();
        JsonNode spouts = lines().get(0).get("spouts");
        assertTrue(spouts.at("/due/0").asInt() >= 29, spouts.toString());
        assertTrue(spouts.at("/behind_ms/0").asDouble() >= 280, spouts.toString());
        assertEquals(1, spouts.at("/due/1").asInt());
        assertEquals(0.0, spouts.at("/behind_ms/1").asDouble());
        assertTrue(spouts.at("/due/2").isNull() && spouts.at("/behind_ms/2").isNull());
        assertEquals("[0,1,1]", spouts.get("emitted").toString());
    }

    @Test
    void noCountIsLostOrReadTwiceWhileTasksRun() throws Exception {
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> 1);
        AtomicBoolean isEnough = new AtomicBoolean();
        AtomicLong counted = new AtomicLong();
        List<Thread> writers = new ArrayList<>();
        for (int task = 1; task <= 4; task++) {
            TaskCounters counters = bolt(task, true);
            sampler.add(counters);
            for (int half = 0; half < 2; half++) {
                writers.add(new Thread(() -> {
                    while (!isEnough.get()) {
                        counters.executed("spout", "default", 0.0, 1L);
                        counters.emitted("default", List.of(5));
                        counted.getAndIncrement();
                    }
                }));
            }
        }
        writers.forEach(Thread::start);
        for (int taken = 0; taken < 100; taken++) {
            sampler.sample();
            Thread.sleep(5);
        }
        isEnough.set(true);
        for (Thread writer : writers) {
            writer.join();
        }
        sampler.start();
        sampler.close();
        List<JsonNode> lines = lines();
        assertTrue(lines.stream().filter(line -> line.at("/tasks/executed/0").asLong() > 0).count() > 3);
        for (String column : List.of("tasks/executed", "sources/execute_ms", "tasks/emitted", "sinks/n", "traffic/n")) {
            String[] path = column.split("/");
            assertEquals(counted.get(), total(lines, path[0], path[1]), column);
        }
        lines.forEach(WorkerSamplerTest::assertColumnsAreEquallyLong);
    }

    @Test
    void aLineASecondThoughTheServiceHangs() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            URI service = URI.create("http://127.0.0.1:" + silent.getLocalPort() + "/samples");
            WorkerSampler sampler = new WorkerSampler(settings(service), task -> 0);
            sampler.add(bolt(3, false));
            sampler.start();
            Thread.sleep(4200);
            sampler.close();
        }
        List<JsonNode> lines = lines();
        assertTrue(lines.size() >= 4, "only " + lines.size() + " lines");
        List<Double> lengths = new ArrayList<>();
        List<Double> late = new ArrayList<>();
        for (int i = 1; i < lines.size() - 1; i++) {
            assertEquals(i, lines.get(i).get("seq").asInt());
            lengths.add(lines.get(i).get("dt_s").asDouble());
            late.add(lines.get(i).get("t").asDouble() % 1);
        }
        assertEquals(1.0, median(lengths), 0.3, "seconds: " + lengths);
        assertTrue(median(late) < 0.3, "seconds after the full one: " + late);
    }

    private static double median(List<Double> values) {
        return values.stream().sorted().toList().get(values.size() / 2);
    }

    @Test
    void aDirectoryThatCannotBeWrittenCostsLinesOnly() throws Exception {
        Path blocked = directory.resolve("blocked");
        Files.writeString(blocked, "");
        WorkerSampler sampler = new WorkerSampler(new Settings("m1", blocked, null, null, null, Duration.ofSeconds(1)), task -> 0);
        sampler.add(bolt(3, false));
        sampler.sample();
        Files.delete(blocked);
        sampler.sample();
        assertEquals(1, Files.readAllLines(blocked.resolve("m1-6700.jsonl")).size());
    }

    @Test
    void everySourceOfTheWorkerFollowsTheInputRate() throws Exception {
        HttpServer service = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        service.createContext("/samples", exchange -> {
            exchange.getRequestBody().readAllBytes();
            byte[] answer = "{\"input_rate_factor\": 4.0}".getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        service.start();
        try (WorkerSampler sampler = new WorkerSampler(settings(URI.create("http://127.0.0.1:" + service.getAddress().getPort() + "/samples")), task -> 0)) {
            TaskCounters running = spout(1);
            TaskCounters startsLater = spout(2);
            EmissionSchedule schedule = new EmissionSchedule(100, 0, 1, EpochClock.nowNanos());
            running.sourceFollows(schedule);
            sampler.add(running);
            sampler.add(startsLater);
            sampler.start();
            for (int i = 0; i < 100 && rate(schedule) < 200; i++) {
                Thread.sleep(50);
            }
            assertEquals(400, rate(schedule), 1);
            EmissionSchedule late = new EmissionSchedule(100, 0, 1, EpochClock.nowNanos());
            startsLater.sourceFollows(late);
            assertEquals(400, rate(late), 1);
            TaskCounters joinsLater = spout(3);
            sampler.add(joinsLater);
            EmissionSchedule joined = new EmissionSchedule(100, 0, 1, EpochClock.nowNanos());
            joinsLater.sourceFollows(joined);
            assertEquals(400, rate(joined), 1);
        } finally {
            service.stop(0);
        }
    }

    /** Tuples that will fall due in a second from now. */
    private static long rate(EmissionSchedule schedule) {
        long now = EpochClock.nowNanos();
        return schedule.dueBefore(now + 1_000_000_000L) - schedule.dueBefore(now);
    }
}
