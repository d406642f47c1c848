package barograph.topologies;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.storm.redis.common.config.JedisPoolConfig;
import org.apache.storm.redis.state.RedisKeyValueState;
import org.apache.storm.state.State;
import org.apache.storm.state.StateProvider;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.utils.ObjectReader;

/**
 * State in the cluster's Redis, as Storm's own RedisKeyValueStateProvider keeps it, but by topology: that one calls a task's state
 * after its component and number alone, so that two topologies would share theirs. It would also want the password in the topology's
 * configuration, which Nimbus shows to everybody.
 */
public final class RedisStateProvider implements StateProvider {
    /** Keys of {@code storm.yaml}: host:port, and the file with Redis' own line {@code requirepass PASSWORD}. */
    static final String ADDRESS = "barograph.redis.address";
    static final String PASSWORD_FILE = "barograph.redis.password.file";
    private static final String DIRECTIVE = "requirepass ";
    private static final int TIMEOUT_MS = 5000;

    @Override
    public State newState(String namespace, Map<String, Object> conf, TopologyContext context) {
        String address = ObjectReader.getString(conf.get(ADDRESS), "");
        int colon = address.lastIndexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException(
                ADDRESS + " is '" + address + "'; it must be host:port. The cluster was deployed without Redis: deploy it again");
        }
        JedisPoolConfig redis = new JedisPoolConfig.Builder()
            .setHost(address.substring(0, colon)).setPort(Integer.parseInt(address.substring(colon + 1)))
            .setPassword(password(ObjectReader.getString(conf.get(PASSWORD_FILE), ""))).setTimeout(TIMEOUT_MS).build();
        try {
            return new RedisKeyValueState<>(context.getStormId() + "/" + namespace, redis);
        } catch (RuntimeException e) {
            throw new IllegalStateException("Redis at " + address + " cannot be used for the state of " + namespace + ": " + e.getMessage(), e);
        }
    }

    /** Null where there is none. */
    private static String password(String file) {
        if (file.isEmpty()) {
            return null;
        }
        try {
            return Files.readString(Path.of(file)).strip().substring(DIRECTIVE.length());
        } catch (IOException e) {
            throw new UncheckedIOException("Redis' password cannot be read", e);
        }
    }
}
