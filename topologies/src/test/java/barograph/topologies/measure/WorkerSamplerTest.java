package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.EmissionRecords.EmissionRecord;
import barograph.topologies.EmissionRecords.RateChange;
import barograph.topologies.EmissionSchedule;
import barograph.topologies.EpochClock;
import barograph.topologies.Resumption;
import barograph.topologies.Resumption.Gap;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
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
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.policy.IWaitStrategy.WaitSituation;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class WorkerSamplerTest {
    private static final int LAST_TASK = 9;

    @TempDir
    Path directory;

    private Settings settings(URI service) {
        return new Settings("m\"1", "star-1-1", directory, service, null, null, Duration.ofSeconds(1));
    }

    private static TaskCounters bolt(int task, boolean isSink, boolean isAcked, List<TaskCounters> executor) {
        TaskCounters counters = new TaskCounters(
            new TaskCounters.Identity(task, "bolt", "star-1-1", 6700, false, isSink, isAcked, true),
            List.of(new TaskCounters.Stream("default")),
            List.of(new TaskCounters.Source("spout", "default", true, true)), LAST_TASK, executor);
        executor.add(counters);
        return counters;
    }

    private static TaskCounters spout(int task) {
        List<TaskCounters> executor = new CopyOnWriteArrayList<>();
        TaskCounters counters = new TaskCounters(
            new TaskCounters.Identity(task, "spout", "star-1-1", 6700, true, false, false, false),
            List.of(new TaskCounters.Stream("default")), List.of(), 0, executor);
        executor.add(counters);
        return counters;
    }

    private static TaskCounters bolt(int task, boolean isSink) {
        return bolt(task, isSink, false, new CopyOnWriteArrayList<>());
    }

    private List<JsonNode> lines() throws Exception {
        return AvroLines.inFolder(directory).values().iterator().next();
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

    private static long total(JsonNode numbers) {
        long total = 0;
        for (JsonNode number : numbers) {
            total += number.asLong();
        }
        return total;
    }

    private static void assertColumnsAreEquallyLong(JsonNode line) {
        for (String group : List.of("tasks", "streams", "sources", "sinks", "spouts", "gaps", "traffic")) {
            List<Integer> lengths = new ArrayList<>();
            line.path(group).forEach(column -> lengths.add(column.size()));
            assertTrue(lengths.stream().distinct().count() <= 1, group + " of " + line);
        }
    }

    private static Tuple tuple(String component, String stream) {
        return (Tuple) Proxy.newProxyInstance(Tuple.class.getClassLoader(), new Class<?>[] {Tuple.class}, (proxy, method, arguments) ->
            switch (method.getName()) {
                case "getSourceComponent" -> component;
                case "getSourceStreamId" -> stream;
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }

    /** As Storm does: the bolt executes, and acks there; then the hook hears of it. */
    private static boolean take(TaskCounters bolt, Tuple tuple) {
        boolean isDropped = bolt.drops(tuple);
        bolt.processed(tuple, 5L);
        bolt.executed(tuple, 5L);
        return isDropped;
    }

    @Test
    void whatMoreThanTheLimitWaitBehindIsDroppedAndCountedApart() throws Exception {
        AtomicInteger waiting = new AtomicInteger(4);
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> waiting.get());
        TaskCounters limited = bolt(3, false, true, new CopyOnWriteArrayList<>());
        TaskCounters unlimited = bolt(4, false);
        limited.queueLimit(3);
        List.of(limited, unlimited).forEach(sampler::add);
        Tuple line = tuple("spout", "default");
        assertTrue(take(limited, line));
        assertTrue(take(limited, line));
        assertFalse(take(limited, tuple("__system", "__tick")), "a tick of Storm's");
        assertFalse(take(unlimited, line));
        waiting.set(3);
        assertFalse(take(limited, line));
        sampler.sample();
        sampler.sample();
        assertEquals("[1,1]", lines().get(0).at("/tasks/executed").toString());
        assertEquals("[5.0,5.0]", lines().get(0).at("/tasks/execute_ms").toString());
        assertEquals("[5.0,null]", lines().get(0).at("/tasks/process_ms").toString());
        assertEquals("[2,null]", lines().get(0).at("/tasks/dropped").toString());
        assertEquals("[2,null]", lines().get(0).at("/sources/dropped").toString());
        assertEquals("[0,null]", lines().get(1).at("/tasks/dropped").toString());
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
        busy.executed("spout", "default", null, null, 3L);
        busy.executed("spout", "default", null, null, 4L);
        busy.executed("__system", "__tick", null, null, 1L);
        long executing = System.nanoTime();
        sink.executed("spout", "default", "m2", EpochClock.toMs(EpochClock.nowNanos()) - 50.0, 0L);
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
        assertEquals("[\"m2\"]", first.at("/sinks/source_machine").toString());
        assertEquals("[[1]]", first.at("/sinks/counts").toString());
        assertEquals(50.0, first.at("/sinks/max_ms/0").asDouble(), 5 + 1.1 * executedInMs);
        long micros = Math.round(1000 * first.at("/sinks/max_ms/0").asDouble());
        assertEquals(LatencyBuckets.of(micros), first.at("/sinks/buckets/0/0").asInt());
        assertEquals("{\"from\":[3,3],\"to\":[5,6],\"n\":[1,1]}", first.get("traffic").toString());
        assertFalse(first.has("spouts"));
        JsonNode second = lines().get(1);
        assertColumnsAreEquallyLong(second);
        assertEquals(1, second.get("seq").asInt());
        assertEquals("[0,0,0]", second.at("/tasks/executed").toString());
        assertFalse(second.has("sinks"), "no tuple came");
        assertFalse(second.has("traffic"));
    }

    @Test
    void cpuTimeIsOfTheExecutorsThreadFromItsFirstTupleOnAndSharedByItsTasks() throws Exception {
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> 0);
        List<TaskCounters> executor = new CopyOnWriteArrayList<>();
        TaskCounters one = bolt(3, false, false, executor);
        List.of(one, bolt(4, false, false, executor), bolt(5, false), spout(6)).forEach(sampler::add);
        sampler.sample();
        var thread = Executors.newSingleThreadExecutor();
        try {
            thread.submit(() -> burn(300)).get();
            thread.submit(() -> one.executed("spout", "default", null, null, 1L)).get();
            sampler.sample();
            thread.submit(() -> burn(200)).get();
            sampler.sample();
            sampler.sample();
        } finally {
            thread.shutdownNow();
        }
        List<JsonNode> lines = lines();
        assertEquals("[null,null,null,null]", lines.get(0).at("/tasks/cpu_ms").toString());
        assertEquals("[null,null,null,null]", lines.get(1).at("/tasks/cpu_ms").toString(), "what it did before is nobody's");
        JsonNode burnt = lines.get(2).at("/tasks/cpu_ms");
        assertEquals(burnt.get(0), burnt.get(1), "an even share each");
        assertEquals(200, 2 * burnt.get(0).asDouble(), 40);
        assertTrue(burnt.get(2).isNull() && burnt.get(3).isNull(), "no tuple came there");
        assertTrue(lines.get(3).at("/tasks/cpu_ms/0").asDouble() < 20, "it waits, and uses none");
    }

    @Test
    void theWaitUnderBackPressureIsOfTheExecutorsThreadAndSharedByItsTasks() throws Exception {
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> 0);
        List<TaskCounters> executor = new CopyOnWriteArrayList<>();
        TaskCounters one = bolt(3, false, false, executor);
        TaskCounters notTimed = spout(6);
        List.of(one, bolt(4, false, false, executor), bolt(5, false), notTimed).forEach(sampler::add);
        BackPressureWait wait = new BackPressureWait();
        wait.prepare(Map.of(
            Config.TOPOLOGY_BACKPRESSURE_WAIT_PROGRESSIVE_LEVEL1_COUNT, 1, Config.TOPOLOGY_BACKPRESSURE_WAIT_PROGRESSIVE_LEVEL2_COUNT, 1,
            Config.TOPOLOGY_BACKPRESSURE_WAIT_PROGRESSIVE_LEVEL3_SLEEP_MILLIS, 50), WaitSituation.BACK_PRESSURE_WAIT);
        double idleMs;
        var thread = Executors.newSingleThreadExecutor();
        try {
            thread.submit(() -> one.executed("spout", "default", null, null, 1L)).get();
            sampler.sample();
            idleMs = thread.submit(() -> {
                long begin = System.nanoTime();
                for (int idle = 0, i = 0; i < 6; i++) {
                    idle = wait.idle(idle);
                }
                return (System.nanoTime() - begin) / 1e6;
            }).get();
            wait.idle(2);
            sampler.sample();
            sampler.sample();
        } finally {
            thread.shutdownNow();
        }
        List<JsonNode> lines = lines();
        assertEquals("[0.0,0.0,0.0,null]", lines.get(0).at("/tasks/backpressure_ms").toString());
        JsonNode waited = lines.get(1).at("/tasks/backpressure_ms");
        assertEquals(waited.get(0), waited.get(1), "an even share each");
        double waitedMs = 2 * waited.get(0).asDouble();
        assertTrue(waitedMs > 4 * 50 - 1 && waitedMs < idleMs + 1, waitedMs + " of " + idleMs + " ms");
        assertEquals(0, waited.get(2).asDouble(), "another executor's");
        assertEquals("[0.0,0.0,0.0,null]", lines.get(2).at("/tasks/backpressure_ms").toString());
    }

    /** So many ms of this thread's CPU time. */
    private static void burn(long ms) {
        var threads = ManagementFactory.getThreadMXBean();
        long end = threads.getCurrentThreadCpuTime() + ms * 1_000_000;
        while (threads.getCurrentThreadCpuTime() < end) {
            Thread.onSpinWait();
        }
    }

    @Test
    void tuplesOfEachMachineAreCountedApartAndThoseOfAForeignSourceWithoutOne() throws Exception {
        TaskCounters sink = new TaskCounters(
            new TaskCounters.Identity(5, "sink", "star-1-1", 6700, false, true, false, true), List.of(),
            List.of(new TaskCounters.Source("spout", "default", true, true), new TaskCounters.Source("foreign", "default", true, false)),
            0, new CopyOnWriteArrayList<>());
        sink.executor.add(sink);
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> 0);
        sampler.add(sink);
        double now = EpochClock.toMs(EpochClock.nowNanos());
        sink.executed("spout", "default", "m2", now, 1L);
        sink.executed("spout", "default", "m3", now + 60_000, 1L);
        sink.executed("spout", "default", "m3", now + 60_000, 1L);
        sink.executed("foreign", "default", "a word", now, 1L);
        sampler.sample();
        JsonNode sinks = lines().get(0).get("sinks");
        assertColumnsAreEquallyLong(lines().get(0));
        for (int i = 0; i < 3; i++) {
            boolean isAhead = sinks.at("/source_machine/" + i).asText().equals("m3");
            assertEquals(isAhead ? 2 : 1, sinks.at("/n/" + i).asInt(), sinks.toString());
            assertEquals(isAhead, sinks.at("/buckets/" + i + "/0").asInt() < 0, "a clock that is ahead is no latency of 0");
        }
        List<String> machines = new ArrayList<>();
        sinks.get("source_machine").forEach(machine -> machines.add(machine.asText()));
        assertEquals(List.of("m2", "m3", "null"), machines.stream().sorted().toList());
    }

    @Test
    void whatNobodyTimedIsNullAndASampleIsScaledUp() throws Exception {
        WorkerSampler sampler = new WorkerSampler(settings(null), task -> null);
        TaskCounters counters = bolt(3, false);
        sampler.add(counters);
        counters.executed("spout", "default", null, null, -1L);
        sampler.sample();
        counters.executed("spout", "default", null, null, 6L);
        counters.executed("spout", "default", null, null, null);
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
        long now = EpochClock.nowNanos();
        Gap gap = new Gap(now - 2_500_000_000L, now, 250L);
        late.sourceFollows(new Resumption(new EmissionSchedule(100, 0, 1, now), List.of(gap), 40L));
        late.emittedAfter(999_000_000L);
        late.emittedAfter(1_001_000_000L);
        free.sourceIsUnthrottled();
        free.emitted("default", List.of(3));
        foreign.emitted("default", List.of(3));
        Thread.sleep(300);
        sampler.sample();
        sampler.sample();
        JsonNode gaps = lines().get(0).get("gaps");
        assertEquals(2.5, gaps.at("/until_s/0").asDouble() - gaps.at("/from_s/0").asDouble(), 0.002);
        assertEquals("[1] [250]", gaps.get("task") + " " + gaps.get("due"));
        assertFalse(lines().get(1).has("gaps"));
        assertEquals("[0,0,null]", lines().get(1).at("/spouts/missed").toString());
        lines().forEach(WorkerSamplerTest::assertColumnsAreEquallyLong);
        JsonNode spouts = lines().get(0).get("spouts");
        assertTrue(spouts.at("/due/0").asInt() >= 29, spouts.toString());
        assertTrue(spouts.at("/behind_ms/0").asDouble() >= 280, spouts.toString());
        assertEquals(1, spouts.at("/due/1").asInt());
        assertEquals(0.0, spouts.at("/behind_ms/1").asDouble());
        assertTrue(spouts.at("/due/2").isNull() && spouts.at("/behind_ms/2").isNull());
        assertEquals("[0,1,1]", spouts.get("emitted").toString());
        assertEquals(spouts.at("/due/0").asInt(), spouts.at("/behind/0").asInt());
        assertEquals("[40,0,null]", spouts.get("missed").toString());
        assertEquals("[1,0,null]", spouts.get("late").toString());
        assertTrue(spouts.at("/behind/1").asInt() == 0 && spouts.at("/behind/2").isNull());
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
                        counters.executed("spout", "default", "m1", EpochClock.toMs(EpochClock.nowNanos()), 1L);
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
        long inBuckets = 0;
        for (JsonNode line : lines) {
            for (JsonNode counts : line.path("sinks").path("counts")) {
                inBuckets += total(counts);
            }
        }
        assertEquals(counted.get(), inBuckets);
        lines.forEach(WorkerSamplerTest::assertColumnsAreEquallyLong);
    }

    @Test
    void aLineASecondThoughTheServiceHangs() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            URI service = URI.create("http://127.0.0.1:" + silent.getLocalPort() + "/samples");
            WorkerSampler sampler = new WorkerSampler(settings(service), task -> 0);
            sampler.add(bolt(3, false));
            sampler.start();
            for (int i = 0; i < 600 && AvroLines.inFolder(directory).values().stream().mapToInt(List::size).sum() < 9; i++) {
                Thread.sleep(50);
            }
            sampler.close();
        }
        List<JsonNode> lines = lines();
        assertTrue(lines.size() >= 9, "only " + lines.size() + " lines in half a minute");
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
        WorkerSampler sampler = new WorkerSampler(new Settings("m1", "star-1-1", blocked, null, null, null, Duration.ofSeconds(1)), task -> 0);
        sampler.add(bolt(3, false));
        sampler.sample();
        Files.delete(blocked);
        sampler.sample();
        assertEquals(1, AvroLines.inFolder(blocked).values().iterator().next().size());
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
            running.sourceFollows(start(schedule));
            sampler.add(running);
            sampler.add(startsLater);
            sampler.start();
            for (int i = 0; i < 100 && rate(schedule) < 200; i++) {
                Thread.sleep(50);
            }
            assertEquals(400, rate(schedule), 1);
            EmissionSchedule late = new EmissionSchedule(100, 0, 1, EpochClock.nowNanos());
            startsLater.sourceFollows(start(late));
            assertEquals(400, rate(late), 1);
            TaskCounters joinsLater = spout(3);
            sampler.add(joinsLater);
            EmissionSchedule joined = new EmissionSchedule(100, 0, 1, EpochClock.nowNanos());
            joinsLater.sourceFollows(start(joined));
            assertEquals(400, rate(joined), 1);
        } finally {
            service.stop(0);
        }
    }

    private static Resumption start(EmissionSchedule schedule) {
        return new Resumption(schedule, List.of(), 0L);
    }

    /** Tuples a second, by the distance of the next two. */
    private static double rate(EmissionSchedule schedule) {
        while (schedule.isDue(EpochClock.nowNanos())) {
            schedule.take();
        }
        long first = schedule.take();
        return 1e9 / (schedule.take() - first);
    }

    /** Before the service has said what is on record nobody knows, and what it says later does not count. */
    @Test
    void everySourceIsToldWhatIsOnRecord() throws Exception {
        List<String> answers = new CopyOnWriteArrayList<>(List.of("{}", "{}"));
        HttpServer service = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        service.createContext("/samples", exchange -> {
            exchange.getRequestBody().readAllBytes();
            boolean isDown = answers.size() == 2;
            byte[] answer = (isDown ? answers.remove(0) : answers.get(0)).getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(isDown ? 503 : 200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        service.start();
        answers.set(1, "{\"input_rate_factor\": 2.0, \"topology\": \"star-1-1\", \"schedules\": {\"1\": {\"t\": 1763712345.5, \"behind\": 3}},"
            + " \"input_rates\": [[1763712300, 1], [1763712340.25, 2.0]]}");
        URI uri = URI.create("http://127.0.0.1:" + service.getAddress().getPort() + "/samples");
        try (WorkerSampler sampler = new WorkerSampler(settings(uri), task -> 0)) {
            TaskCounters restarted = spout(1);
            sampler.add(restarted);
            assertNull(restarted.emissionRecords());
            sampler.start();
            for (int i = 0; i < 100 && restarted.emissionRecords() == null; i++) {
                Thread.sleep(50);
            }
            EmissionRecord record = restarted.emissionRecords().of(1, "spout_1");
            assertEquals(1_763_712_345_500_000_000L, record.untilNanos());
            assertEquals(3, record.behind());
            assertEquals(List.of(new RateChange(1_763_712_300_000_000_000L, 1), new RateChange(1_763_712_340_250_000_000L, 2)), record.rates());
            TaskCounters fresh = spout(2);
            sampler.add(fresh);
            assertTrue(fresh.emissionRecords().areKnown());
            assertNull(fresh.emissionRecords().of(2, "spout_1"));
        } finally {
            service.stop(0);
        }
    }

    @Test
    void recordsOfAnotherTopologyOrNoneAreUnknown() {
        TaskCounters counters = spout(1);
        for (String answer : List.of("{}", "no json {", "{\"topology\": \"star-1-1\", \"schedules\": [], \"input_rates\": []}",
            "{\"topology\": \"star-1-1\", \"schedules\": {\"1\": {\"t\": 1, \"behind\": -1}}, \"input_rates\": [[0, 1]]}",
            "{\"topology\": \"star-1-1\", \"schedules\": {\"1\": {\"t\": 1, \"behind\": 1}}, \"input_rates\": []}",
            "{\"topology\": \"star-1-1\", \"schedules\": {\"1\": {\"t\": 1, \"behind\": 1}}, \"input_rates\": [[0, 0]]}",
            "{\"topology\": \"star-1-1\", \"schedules\": {}}",
            "{\"topology\": \"other\", \"schedules\": {}, \"input_rates\": []}")) {
            counters.emissionRecords(SamplesAnswer.of(answer).records());
            assertFalse(counters.emissionRecords().areKnown(), answer);
        }
        counters.emissionRecords(SamplesAnswer.of("{\"topology\": \"star-1-1\", \"schedules\": {}, \"input_rates\": [[0, 1]]}").records());
        assertTrue(counters.emissionRecords().areKnown());
        WorkerSampler without = new WorkerSampler(settings(null), task -> 0);
        without.add(counters);
        assertFalse(counters.emissionRecords().areKnown());
    }
}
