package barograph.bridge;

import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;

/** Storm's scheduler that asks the policy service: `storm.scheduler: barograph.bridge.PolicyScheduler`. */
public final class PolicyScheduler implements IScheduler {
    private ExecutorService background;
    private Rounds rounds;
    private StormSchedulers schedulers;

    /** Throws IllegalArgumentException where storm.yaml lacks a setting: Nimbus then does not start. */
    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {
        Settings settings = Settings.of(conf);
        background = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, "barograph-bridge");
            thread.setDaemon(true);
            return thread;
        });
        schedulers = new StormSchedulers(conf, registry, settings.foreignJars(), settings.foreignLimit());
        rounds = new Rounds(
            new PolicyService(settings.serviceUrl(), settings.tokenFile(), settings.serviceTimeout(), settings.certificate()),
            NimbusCalls.overThrift(conf),
            new Plans(settings.plans(), settings.planLimit(), System::nanoTime),
            new BridgeEvents(settings.events()),
            schedulers,
            background,
            () -> System.currentTimeMillis() / 1000.0);
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        rounds.round(topologies, cluster);
    }

    @Override
    public Map<String, Map<String, Double>> config() {
        return Map.of();
    }

    @Override
    public void cleanup() {
        background.shutdownNow();
        schedulers.cleanup();
    }
}
