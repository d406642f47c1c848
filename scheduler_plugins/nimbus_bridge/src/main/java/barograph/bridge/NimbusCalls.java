package barograph.bridge;

import java.util.Map;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.utils.NimbusClient;

/** What the bridge asks of Nimbus. */
interface NimbusCalls {

    /** Returns when Nimbus has accepted the rebalance; its scheduling round comes afterwards. */
    void rebalance(String topologyName, Map<String, Integer> executors) throws Exception;

    /** Over Thrift, never from the scheduling thread: Nimbus may hold its locks there. */
    static NimbusCalls overThrift(Map<String, Object> conf) {
        return (topologyName, executors) -> {
            RebalanceOptions options = new RebalanceOptions();
            options.set_wait_secs(0);
            if (!executors.isEmpty()) {
                options.set_num_executors(executors);
            }
            try (NimbusClient nimbus = NimbusClient.Builder.withConf(conf).withTimeout(10_000).build()) {
                nimbus.getClient().rebalance(topologyName, options);
            }
        };
    }
}
