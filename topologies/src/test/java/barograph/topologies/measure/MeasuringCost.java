package barograph.topologies.measure;

import barograph.topologies.PassBolt;
import barograph.topologies.SourceSpout;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.storm.Config;
import org.apache.storm.ILocalCluster.ILocalTopology;
import org.apache.storm.LocalCluster;
import org.apache.storm.policy.WaitStrategyProgressive;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/**
 * What measuring costs: the same topology with and without hook, reporter and timed wait, in turns, in one real Storm.
 *
 * <p>Arguments: rounds (default 5), seconds a run (default 12). {@code paced}: linear at 2160 tuples/s and 8 ms, three times the rate it ships with.
 * {@code unthrottled}: no cost and no pause anywhere, so that every nanosecond of counting is missing elsewhere: the worst case.
 */
public final class MeasuringCost {
    private static final long WARM_UP_MS = 6_000;
    private static final double PACED_RATE = 2160;
    private static final double PACED_MS_PER_CHARACTER = 0.2;
    private static final int RECEIVE_BUFFER = 65_536;
    private static final LongAdder ARRIVED = new LongAdder();

    private MeasuringCost() {
    }

    /** Counts by itself, because in half of the runs nobody else does. */
    public static final class CountingSink extends BaseRichBolt {
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
        }

        @Override
        public void execute(Tuple tuple) {
            ARRIVED.increment();
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
        }
    }

    private record Result(double tuplesPerSecond, double cpuMicrosPerTuple) {
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 5;
        long ms = 1000L * (arguments.length > 1 ? Integer.parseInt(arguments[1]) : 12);
        Path samples = Files.createTempDirectory("measuring-cost");
        System.out.println("with / without measuring, median of " + rounds + " rounds [lowest .. highest]");
        for (boolean unthrottled : new boolean[] {false, true}) {
            List<Double> throughput = new ArrayList<>();
            List<Double> cpu = new ArrayList<>();
            for (int round = 0; round < rounds; round++) {
                boolean measuredFirst = round % 2 == 0;
                Result first = run(unthrottled, measuredFirst, ms, samples);
                Result second = run(unthrottled, !measuredFirst, ms, samples);
                Result with = measuredFirst ? first : second;
                Result without = measuredFirst ? second : first;
                throughput.add(with.tuplesPerSecond / without.tuplesPerSecond);
                cpu.add(with.cpuMicrosPerTuple / without.cpuMicrosPerTuple);
            }
            System.out.printf("%-12s throughput %s   CPU per tuple %s%n", unthrottled ? "unthrottled" : "paced", spread(throughput), spread(cpu));
        }
        try (var files = Files.list(samples.resolve("with"))) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(samples.resolve("with"));
        Files.delete(samples);
        System.exit(0); // Storm's timers would keep the process
    }

    private static String spread(List<Double> ratios) {
        double[] sorted = ratios.stream().mapToDouble(Double::doubleValue).sorted().toArray();
        double median = (sorted[(sorted.length - 1) / 2] + sorted[sorted.length / 2]) / 2;
        return String.format("%.3f [%.3f .. %.3f]", median, sorted[0], sorted[sorted.length - 1]);
    }

    @SuppressWarnings("try") // close() of Storm's own cluster may throw InterruptedException, which ends the bench as it should
    private static Result run(boolean unthrottled, boolean measured, long ms, Path samples) throws Exception {
        Map<String, Object> daemons = Map.of(Config.STORM_LOCAL_HOSTNAME, "m1", "barograph.samples.dir", samples.resolve(measured ? "with" : "without").toString(),
            "storm.metricstore.class", "org.apache.storm.metricstore.NoOpMetricStore");
        try (LocalCluster cluster = new LocalCluster.Builder().withSupervisors(1).withDaemonConf(daemons).build();
            ILocalTopology topology = cluster.submitTopology("cost", config(measured), builder(unthrottled).createTopology())) {
            Thread.sleep(WARM_UP_MS);
            long tuples = ARRIVED.sum();
            long cpu = cpuNanos();
            long begin = System.nanoTime();
            Thread.sleep(ms);
            long arrived = ARRIVED.sum() - tuples;
            double seconds = (System.nanoTime() - begin) / 1e9;
            if (topology == null || arrived == 0) {
                throw new IllegalStateException("nothing arrived at the sink");
            }
            if (Files.exists(samples.resolve("without"))) {
                throw new IllegalStateException("the side without measuring was measured");
            }
            return new Result(arrived / seconds, (cpuNanos() - cpu) / 1e3 / arrived);
        }
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static TopologyBuilder builder(boolean unthrottled) {
        int executors = unthrottled ? 1 : 6;
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new SourceSpout(PACED_RATE, 1, unthrottled, "catch_up"), executors);
        builder.setBolt("bolt_1", new PassBolt("none", 0), executors).shuffleGrouping("spout");
        PassBolt costly = unthrottled ? new PassBolt("none", 0) : new PassBolt("sleep", PACED_MS_PER_CHARACTER);
        builder.setBolt("bolt_2", costly, executors).shuffleGrouping("bolt_1");
        builder.setBolt("sink", new CountingSink(), executors).shuffleGrouping("bolt_2");
        return builder;
    }

    private static Config config(boolean measured) {
        Config config = new Config();
        config.setNumWorkers(1);
        config.setNumAckers(0);
        config.put(Config.TOPOLOGY_STATS_SAMPLE_RATE, 1.0);
        config.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        config.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, RECEIVE_BUFFER);
        // Both sides name them: Storm reads the storm.yaml of the folder that it is started in, where measuring is set.
        config.put(Config.TOPOLOGY_AUTO_TASK_HOOKS, measured ? List.of(MeasuringHook.class.getName()) : List.of());
        config.put(Config.TOPOLOGY_METRICS_REPORTERS, measured ? List.of(Map.of("class", SamplesReporter.class.getName())) : List.of());
        Class<?> wait = measured ? BackPressureWait.class : WaitStrategyProgressive.class;
        config.put(Config.TOPOLOGY_BACKPRESSURE_WAIT_STRATEGY, wait.getName());
        return config;
    }
}
