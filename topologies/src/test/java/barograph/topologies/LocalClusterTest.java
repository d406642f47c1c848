package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.measure.BackPressureWait;
import barograph.topologies.measure.MeasuringHook;
import barograph.topologies.measure.SamplesReporter;
import barograph.topologies.measure.AvroLines;
import barograph.topologies.opengov.AwardJoinBolt;
import barograph.topologies.opengov.ContractSpout;
import barograph.topologies.opengov.ParentBolt;
import barograph.topologies.opengov.PriceRangeBolt;
import barograph.topologies.opengov.PriceRatioBolt;
import barograph.topologies.opengov.QuoteSpout;
import barograph.topologies.opengov.SurgeFilterBolt;
import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.storm.Config;
import org.apache.storm.ILocalCluster.ILocalTopology;
import org.apache.storm.LocalCluster;
import org.apache.storm.policy.WaitStrategyProgressive;
import org.apache.storm.spout.CheckPointState;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The components, the hook and the reporter in a real Storm, two workers, with acking. */
@Timeout(300)
class LocalClusterTest {
    private static final double RATE = 200;
    private static final double MS_PER_CHARACTER = 0.05;
    private static final double CHAIN_RATE = 40;
    /** So much that waking late hardly changes the ratios. */
    private static final double CHAIN_MS_PER_CHARACTER = 0.75;
    private static final double MEAN_CHARACTERS = 40.25;
    /** Words of eight characters in a line, with the last, shorter one: 0.7 × 115 / 35 + 0.3 × 840 / 80. */
    private static final double WORDS_OF_EIGHT = 5.4500;
    /** Share of it that the mean of a few hundred lines has at least. */
    private static final double SHORTEST = 0.85;
    /** Seconds' worth of tuples that may be on their way when a window begins or ends, on a machine that does other things too. */
    private static final double SLACK_S = 1.5;
    /** How much later than asked such a machine wakes a thread, on average over the middle one of the seconds, at most. */
    private static final double WAKING_MS = 8;
    /** Tuples of a whole run that may be counted while counters are read one after the other for the last time. */
    private static final double WHILE_READ = 4;

    private static final Map<String, Object> TIMED_WAIT = Map.of(Config.TOPOLOGY_BACKPRESSURE_WAIT_STRATEGY, BackPressureWait.class.getName());

    @TempDir
    Path directory;
    private final AtomicReference<String> submitted = new AtomicReference<>();
    /** Epoch seconds: from then on the cluster is being taken down. */
    private double endS = Double.POSITIVE_INFINITY;

    private static TopologyBuilder topology() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new SourceSpout(RATE, 1, false, "catch_up"), 2).setNumTasks(4);
        builder.setBolt("bolt", new PassBolt("sleep", MS_PER_CHARACTER), 2).setNumTasks(4).shuffleGrouping("spout");
        builder.setBolt("sink", new SinkBolt("none", 0), 1).setNumTasks(2).shuffleGrouping("bolt");
        return builder;
    }

    /** Every kind of component, grouped by field and over machines, of which there is one. */
    private static TopologyBuilder chain() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new SourceSpout(CHAIN_RATE, 1, false, "catch_up"), 2);
        builder.setBolt("transform", new TransformBolt("sleep", CHAIN_MS_PER_CHARACTER, 0.8), 2).shuffleGrouping("spout");
        builder.setBolt("filter", new FilterBolt("sleep", CHAIN_MS_PER_CHARACTER, 0.8, 1), 2).shuffleGrouping("transform");
        builder.setBolt("aggregate", new AggregateBolt("sleep", CHAIN_MS_PER_CHARACTER), 2)
            .customGrouping("filter", new MachineGrouping("ring", "id", 200));
        builder.setBolt("sink", new SinkBolt("sleep", CHAIN_MS_PER_CHARACTER), 2).fieldsGrouping("aggregate", new Fields("count"));
        return builder;
    }

    private static Config config() {
        Config config = new Config();
        config.setNumWorkers(2);
        config.setNumAckers(1);
        config.put(Config.TOPOLOGY_STATS_SAMPLE_RATE, 1.0);
        config.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        config.put(Config.TOPOLOGY_AUTO_TASK_HOOKS, List.of(MeasuringHook.class.getName()));
        config.put(Config.TOPOLOGY_METRICS_REPORTERS, List.of(Map.of("class", SamplesReporter.class.getName())));
        return config;
    }

    @SuppressWarnings("try") // close() of Storm's own cluster may throw InterruptedException, which fails the test as it should
    private void run(TopologyBuilder builder, double rate, double seconds, Map<String, Object> conf) throws Exception {
        Map<String, Object> daemons = new HashMap<>(conf);
        daemons.put(Config.STORM_LOCAL_HOSTNAME, "m1");
        daemons.put("barograph.samples.dir", directory.toString());
        daemons.put("barograph.traffic", true);
        try (LocalCluster cluster = new LocalCluster.Builder().withSupervisors(2).withDaemonConf(daemons).build();
            ILocalTopology topology = cluster.submitTopology("test", config(), builder.createTopology())) {
            assertTrue(topology != null);
            submitted.set(cluster.getClusterInfo().get_topologies().get(0).get_id());
            while (dueSeconds(rate) < seconds) {
                Thread.sleep(500);
            }
            endS = EpochClock.nowNanos() / 1e9;
        }
    }

    private Map<String, List<JsonNode>> lines() throws Exception {
        return AvroLines.inFolder(directory);
    }

    /** Seconds in which every worker was up, without the first two and the last two, and none in which the cluster ends. */
    private List<JsonNode> steady(Map<String, List<JsonNode>> lines) {
        double from = lines.values().stream().mapToDouble(worker -> worker.get(0).get("t").asDouble()).max().orElseThrow() + 2;
        double last = lines.values().stream().mapToDouble(worker -> worker.get(worker.size() - 1).get("t").asDouble()).min().orElseThrow();
        double to = Math.min(last - 2, endS - 1);
        return lines.values().stream().flatMap(List::stream)
            .filter(line -> line.get("t").asDouble() > from && line.get("t").asDouble() < to)
            .toList();
    }

    /** What the sources were to emit while both workers were up; the test's own timeout ends a wait that is in vain. */
    private double dueSeconds(double rate) throws Exception {
        Map<String, List<JsonNode>> lines = lines();
        boolean areUp = lines.size() == 2 && lines.values().stream().noneMatch(List::isEmpty);
        return areUp ? sum(steady(lines), "spouts", "due", null) / rate : 0;
    }

    private static double sum(List<JsonNode> lines, String group, String column, String component) {
        double sum = 0;
        for (JsonNode line : lines) {
            JsonNode rows = line.path(group);
            for (int i = 0; i < rows.path(column).size(); i++) {
                if (component == null || rows.get("component").get(i).asText().equals(component)) {
                    sum += rows.get(column).get(i).asDouble();
                }
            }
        }
        return sum;
    }

    @Test
    void aRealStormWritesWhatHappened() throws Exception {
        run(topology(), RATE, 10, TIMED_WAIT);
        Map<String, List<JsonNode>> lines = lines();
        assertEquals(2, lines.size());
        List<JsonNode> steady = steady(lines);
        double seconds = sum(steady, "spouts", "due", null) / RATE;
        double emitted = sum(steady, "tasks", "emitted", "spout");
        assertEquals(RATE * seconds, emitted, RATE * SLACK_S);
        assertEquals(emitted, sum(steady, "tasks", "executed", "bolt"), RATE * SLACK_S);
        assertEquals(emitted, sum(steady, "tasks", "executed", "sink"), RATE * SLACK_S);
        List<JsonNode> all = lines.values().stream().flatMap(List::stream).toList();
        assertEquals(sum(all, "tasks", "executed", "sink"), sum(all, "sinks", "n", null), WHILE_READ);
        assertEquals(sum(all, "tasks", "transferred", null), sum(all, "traffic", "n", null), WHILE_READ);
        assertEquals(sum(steady, "tasks", "emitted", null), sum(steady, "streams", "emitted", null));
        double acked = sum(steady, "tasks", "executed", "__acker");
        assertEquals(sum(steady, "tasks", "executed", null) - acked, sum(steady, "sources", "executed", null));
        assertEquals(3 * emitted, acked, 3 * RATE * SLACK_S, "the acker hears of each tuple from the spout, the bolt and the sink");

        steady.forEach(line -> line.at("/sinks/source_machine").forEach(machine -> assertEquals("m1", machine.asText())));
        double inBuckets = 0;
        for (JsonNode line : steady) {
            for (JsonNode counts : line.at("/sinks/counts")) {
                for (JsonNode count : counts) {
                    inBuckets += count.asDouble();
                }
            }
        }
        assertEquals(sum(steady, "sinks", "n", null), inBuckets);

        double executeMs = sum(steady, "tasks", "execute_ms", "bolt") / sum(steady, "tasks", "executed", "bolt");
        assertTrue(executeMs > SHORTEST * MEAN_CHARACTERS * MS_PER_CHARACTER, "slept " + executeMs + " ms; how long is seen in the chain below");
        double processMs = sum(steady, "tasks", "process_ms", "bolt") / sum(steady, "tasks", "executed", "bolt");
        assertEquals(executeMs, processMs, 1.0);
        double latencyMs = sum(steady, "sinks", "sum_ms", null) / sum(steady, "sinks", "n", null);
        assertTrue(latencyMs > executeMs && latencyMs < 1000, "latency " + latencyMs);

        double waited = sum(steady, "tasks", "backpressure_ms", null) / seconds;
        assertTrue(waited < 20, "without back-pressure the executors waited " + waited + " ms in each second");

        TreeSet<String> components = new TreeSet<>();
        steady.forEach(line -> line.at("/tasks/component").forEach(name -> components.add(name.asText())));
        assertEquals(new TreeSet<>(List.of("__acker", "bolt", "sink", "spout")), components);
        steady.forEach(line -> line.at("/tasks/queue").forEach(queue -> assertTrue(queue.isInt(), line.toString())));
        assertTrue(backpressure(steady).allMatch(JsonNode::isDouble), "of each task a number");
        assertNull(steady.stream().filter(line -> !line.get("topology").asText().startsWith("test-1-")).findAny().orElse(null));
    }

    /** The bolt takes a quarter of what is due, and its queue hardly anything: the spout waits, wherever the bolt is. */
    @Test
    void aSpoutBeforeASlowBoltWaitsUnderBackPressure() throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new SourceSpout(RATE, 1, false, "catch_up"), 1).setNumTasks(2);
        builder.setBolt("bolt", new PassBolt("sleep", 4000 / RATE / MEAN_CHARACTERS), 1).shuffleGrouping("spout");
        builder.setBolt("sink", new SinkBolt("none", 0), 1).shuffleGrouping("bolt");
        Map<String, Object> conf = new HashMap<>(TIMED_WAIT);
        conf.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, 16);
        conf.put(Config.STORM_LOCAL_MODE_ZMQ, true); // Storm's own in-process messages know no back-pressure
        run(builder, RATE, 6, conf);
        List<JsonNode> steady = steady(lines());
        double waited = medianOfSeconds(steady, second -> backpressureMs(second, "spout"));
        assertTrue(waited > 800 && waited < 1100, "the spout waited " + waited + " ms in each second");
        assertTrue(backpressureMs(steady, "bolt") < 100 && backpressureMs(steady, "sink") < 100, "nobody is behind them");
    }

    /** As above, but with a limit: nobody waits, the bolt works all the time, and what it cannot do is dropped. */
    @Test
    void aSlowBoltWithAQueueLimitDropsTheRest() throws Exception {
        int limit = 40;
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new SourceSpout(RATE, 1, false, "catch_up"), 1).setNumTasks(2);
        builder.setBolt("bolt", new PassBolt("sleep", 4000 / RATE / MEAN_CHARACTERS), 1).setNumTasks(2).shuffleGrouping("spout");
        builder.setBolt("sink", new SinkBolt("none", 0), 1).shuffleGrouping("bolt");
        Map<String, Object> conf = new HashMap<>(TIMED_WAIT);
        conf.put("barograph.queue.limit", limit);
        conf.put(Config.STORM_LOCAL_MODE_ZMQ, true);
        run(builder, RATE, 8, conf);
        List<JsonNode> steady = steady(lines());
        double seconds = steady.size() / 2.0;
        double executed = sum(steady, "tasks", "executed", "bolt");
        double dropped = sum(steady, "tasks", "dropped", "bolt");
        assertEquals(sum(steady, "tasks", "emitted", "spout"), executed + dropped, RATE * SLACK_S);
        assertTrue(executed < 1.2 * RATE / 4 * seconds, executed + " executed in " + seconds + " s");
        assertTrue(sum(steady, "tasks", "execute_ms", "bolt") > 600 * seconds, "it works all the time, however late it is woken up");
        assertEquals(dropped, sum(steady, "sources", "dropped", null), "the sink drops nothing");
        assertEquals(executed, sum(steady, "tasks", "executed", "sink"), RATE * SLACK_S);
        double queue = medianOfSeconds(steady, second -> sum(second, "tasks", "queue", "bolt"));
        assertTrue(queue > limit - 10 && queue < limit + 10, queue + " wait");
        assertTrue(backpressureMs(steady, "spout") < 100, "nobody waits for room");
    }

    /** A value of each task of each line. */
    private static Stream<JsonNode> backpressure(List<JsonNode> lines) {
        return lines.stream().flatMap(line -> {
            JsonNode column = line.at("/tasks/backpressure_ms");
            assertEquals(line.at("/tasks/component").size(), column.size(), line.toString());
            return StreamSupport.stream(column.spliterator(), false);
        });
    }

    /** In a second of the component's executors. */
    private static double backpressureMs(List<JsonNode> lines, String component) {
        double executorSeconds = 0;
        for (JsonNode line : lines) {
            boolean isHere = line.at("/tasks/component").toString().contains(component);
            executorSeconds += isHere ? line.get("dt_s").asDouble() : 0;
        }
        return sum(lines, "tasks", "backpressure_ms", component) / executorSeconds;
    }

    /** Ratios, because the lines are the same all along and a busy machine delays all components alike. */
    @Test
    void costsFollowTheTextThroughAChain() throws Exception {
        run(chain(), CHAIN_RATE, 12, Map.of(Config.TOPOLOGY_BACKPRESSURE_WAIT_STRATEGY, WaitStrategyProgressive.class.getName()));
        List<JsonNode> steady = steady(lines());
        assertTrue(backpressure(steady).allMatch(JsonNode::isNull), "of another strategy nothing is known");
        double emitted = sum(steady, "tasks", "emitted", "spout");
        assertTrue(emitted >= 10 * CHAIN_RATE, "only " + emitted + " tuples");
        assertEquals(emitted, sum(steady, "tasks", "executed", "transform"), CHAIN_RATE * SLACK_S);
        double filtered = sum(steady, "tasks", "executed", "filter");
        assertEquals(0.8, sum(steady, "tasks", "emitted", "filter") / filtered, 4 * Math.sqrt(0.8 * 0.2 / filtered));
        assertEquals(0.8 * filtered, sum(steady, "sinks", "n", null), CHAIN_RATE * SLACK_S);

        double askedMs = MEAN_CHARACTERS * CHAIN_MS_PER_CHARACTER;
        assertTrue(executeMs(steady, "transform") > SHORTEST * askedMs, "nobody is woken before the time");
        double sleptMs = medianOfSeconds(steady, second -> executeMs(second, "transform"));
        assertTrue(sleptMs < askedMs + WAKING_MS, "slept " + sleptMs + " ms, where " + askedMs + " were asked for");
        assertEquals(0.8, ratio(steady, "filter", "transform"), 0.08);
        assertEquals(1, ratio(steady, "aggregate", "filter"), 0.1);
        assertEquals((MEAN_CHARACTERS * 0.8 + 8) / (MEAN_CHARACTERS * 0.8), ratio(steady, "sink", "aggregate"), 0.12);
    }

    /** A day lasts 50 ms, and each company's price jumps every 40 days: it has doubled on 19 of them. */
    @Test
    void contractsAreJoinedWithCompaniesWhosePriceHasDoubled() throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("quotes", new QuoteSpout(RATE, 1, false, "catch_up", 20, 0, 40, 0.05, ""), 1);
        builder.setSpout("contracts", new ContractSpout(RATE / 4, 1, false, "catch_up", 20, 4, 0.5, 0.05, ""), 1);
        builder.setBolt("range", new PriceRangeBolt(20), 2).fieldsGrouping("quotes", new Fields("symbol"));
        builder.setBolt("ratio", new PriceRatioBolt(), 2).fieldsGrouping("range", new Fields("symbol"));
        builder.setBolt("surges", new SurgeFilterBolt(), 2).fieldsGrouping("ratio", new Fields("symbol"));
        builder.setBolt("parents", new ParentBolt(20, ""), 2).fieldsGrouping("contracts", new Fields("contractor"));
        builder.setBolt("join", new AwardJoinBolt(20), 2).fieldsGrouping("surges", new Fields("company")).fieldsGrouping("parents", new Fields("company"));
        builder.setBolt("output", new EndBolt(), 1).shuffleGrouping("join");
        run(builder, 1.25 * RATE, 10, TIMED_WAIT);
        List<JsonNode> steady = steady(lines());
        double quotes = sum(steady, "tasks", "emitted", "quotes");
        assertEquals(quotes, sum(steady, "tasks", "emitted", "ratio"), RATE * SLACK_S);
        assertEquals(19.0 / 40, sum(steady, "tasks", "emitted", "surges") / quotes, 0.1);
        assertEquals(sum(steady, "tasks", "emitted", "contracts"), sum(steady, "tasks", "emitted", "parents"), RATE * SLACK_S / 4);
        double joined = sum(steady, "tasks", "emitted", "join");
        assertTrue(joined > 0 && joined < sum(steady, "tasks", "executed", "join"), "joined: " + joined);
        assertEquals(joined, sum(steady, "sinks", "n", null), RATE * SLACK_S);
    }

    /** Storm's checkpoints are in none of the numbers; tuples that it holds back until there is state count when they are executed. */
    @Test
    void wordsAreCountedInStormsState() throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new SourceSpout(RATE, 1, false, "catch_up"), 1);
        builder.setBolt("split", new SplitBolt("none", 0, 8), 2).shuffleGrouping("spout");
        builder.setBolt("count", new StatefulAggregateBolt("none", 0), 2).setNumTasks(4).fieldsGrouping("split", new Fields("id"));
        builder.setBolt("output", new SinkBolt("none", 0), 1).shuffleGrouping("count");
        run(builder, RATE, 8, Map.of(Config.TOPOLOGY_KRYO_REGISTER, List.of(CheckPointState.Action.class.getName())));
        Map<String, List<JsonNode>> lines = lines();
        List<JsonNode> steady = steady(lines);
        double emitted = sum(steady, "tasks", "emitted", "spout");
        double words = sum(steady, "tasks", "emitted", "split") / emitted;
        assertEquals(WORDS_OF_EIGHT, words, 0.1 * WORDS_OF_EIGHT);
        List<JsonNode> all = lines.values().stream().flatMap(List::stream).toList();
        double counted = sum(all, "tasks", "executed", "count");
        assertEquals(counted, sum(all, "tasks", "emitted", "count"), WHILE_READ);
        assertEquals(sum(all, "tasks", "emitted", "split"), counted, words * RATE * SLACK_S);
        assertEquals(counted, sum(all, "sinks", "n", null), words * RATE * SLACK_S);
        TreeSet<String> components = new TreeSet<>();
        all.forEach(line -> line.at("/tasks/component").forEach(name -> components.add(name.asText())));
        assertEquals(new TreeSet<>(List.of("__acker", "count", "output", "split", "spout")), components);
        all.forEach(line -> line.at("/streams/stream").forEach(name -> assertEquals("default", name.asText())));
    }

    /** Of the times of a tuple, each second by itself. */
    private static double ratio(List<JsonNode> lines, String component, String other) {
        return medianOfSeconds(lines, second -> executeMs(second, component) / executeMs(second, other));
    }

    /** A second in which a thread, or everything, stood still does not count for more than another. */
    private static double medianOfSeconds(List<JsonNode> lines, ToDoubleFunction<List<JsonNode>> of) {
        double[] found = lines.stream().collect(Collectors.groupingBy(line -> Math.floor(line.get("t").asDouble()))).values().stream()
            .mapToDouble(of).filter(Double::isFinite).sorted().toArray();
        return found[found.length / 2];
    }

    private static double executeMs(List<JsonNode> lines, String component) {
        return sum(lines, "tasks", "execute_ms", component) / sum(lines, "tasks", "executed", component);
    }

    /** As if all workers had died 20 s ago; the policy service takes its time to say so. */
    @Test
    void aSpoutGoesOnWithItsScheduleOnceItIsKnown() throws Exception {
        double diedS = Math.floor(EpochClock.nowNanos() / 1e9) - 20;
        HttpServer service = service(diedS, 16);
        try {
            run(topology(), RATE, 8, Map.of("barograph.service.url", "http://127.0.0.1:" + service.getAddress().getPort()));
        } finally {
            service.stop(0);
        }
        double due = 0;
        double expected = 0;
        double emitted = 0;
        double left = 0;
        for (List<JsonNode> worker : lines().values()) {
            JsonNode last = worker.get(worker.size() - 1);
            double inGaps = sum(worker, "gaps", "due", null);
            assertTrue(inGaps / 2 >= RATE / 4 * 20, "in gaps: " + inGaps);
            due += sum(worker, "spouts", "due", null) + inGaps;
            expected += RATE / 4 * last.at("/spouts/task").size() * (last.get("t").asDouble() - diedS);
            emitted += sum(worker, "spouts", "emitted", null);
            left += sum(List.of(last), "spouts", "behind", null);
            worker.forEach(LocalClusterTest::assertSilentUntilDue);
            assertTrue(sum(worker, "spouts", "late", null) > 0);
            assertEquals(0, sum(worker, "spouts", "missed", null));
        }
        assertEquals(expected, due, 4);
        assertEquals(due + 4 * 5, emitted + left, 8);
    }

    /** A task whose schedule is not known yet emits nothing; a worker's first lines may lack tasks that it has not prepared. */
    private static void assertSilentUntilDue(JsonNode line) {
        JsonNode emitted = line.at("/spouts/emitted");
        for (int i = 0; i < emitted.size(); i++) {
            assertTrue(!line.at("/spouts/due/" + i).isNull() || emitted.get(i).asInt() == 0, line.toString());
        }
    }

    /** Refuses so many requests; then every task is on record until it died, 5 tuples behind. */
    private HttpServer service(double diedS, int refusals) throws IOException {
        AtomicInteger requests = new AtomicInteger();
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/samples", exchange -> {
            exchange.getRequestBody().readAllBytes();
            String topology = exchange.getRequestHeaders().getFirst("X-Barograph-Topology");
            boolean isReady = submitted.get() != null && requests.incrementAndGet() > refusals;
            String record = String.format(Locale.ROOT, "{\"t\": %.1f, \"behind\": 5}", diedS);
            String schedules = IntStream.rangeClosed(1, 20).mapToObj(task -> "\"" + task + "\": " + record).collect(Collectors.joining(", "));
            String answer = String.format(Locale.ROOT, "{\"input_rate_factor\": 1.0, \"topology\": \"%s\", \"schedules\": {%s}, \"input_rates\": [[%.1f, 1.0]]}",
                topology, schedules, diedS - 60);
            byte[] body = answer.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(isReady ? 200 : 503, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        return server;
    }
}
