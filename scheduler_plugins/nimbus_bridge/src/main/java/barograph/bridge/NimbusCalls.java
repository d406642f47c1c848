package barograph.bridge;

import java.util.Map;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.utils.NimbusClient;

/** What the bridge asks of Nimbus. */
interface NimbusCalls {

    /**
     * Returns when Nimbus has accepted the rebalance; its scheduling round comes afterwards.
     *
     * @param waitSeconds that Nimbus waits before it, with the topology deactivated
     */
    void rebalance(String topologyName, Map<String, Integer> executors, int waitSeconds) throws Exception;

    /** Over Thrift, never from the scheduling thread: Nimbus may hold its locks there. */
    static NimbusCalls overThrift(Map<String, Object> conf) {
        return (topologyName, executors, waitSeconds) -> {
            try (NimbusClient nimbus = NimbusClient.Builder.withConf(conf).withTimeout(10_000).build()) {
                nimbus.getClient().rebalance(topologyName, options(executors, waitSeconds));
            }
        };
    }

    /** Without a wait in the options Nimbus would wait for the topology's message timeout. */
    static RebalanceOptions options(Map<String, Integer> executors, int waitSeconds) {
        RebalanceOptions options = new RebalanceOptions();
        options.set_wait_secs(waitSeconds);
        if (!executors.isEmpty()) {
            options.set_num_executors(executors);
        }
        return options;
    }
}
