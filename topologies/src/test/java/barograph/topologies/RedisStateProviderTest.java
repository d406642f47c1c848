package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.state.State;
import org.apache.storm.task.TopologyContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class RedisStateProviderTest {
    @TempDir
    Path directory;

    private static TopologyContext context(String topologyId) {
        return new TopologyContext(
            new StormTopology(Map.of(), Map.of(), Map.of()), Map.of(), Map.of(), Map.of(), Map.of(), Map.of(), topologyId, "", "", 1, 6700, List.of(1),
            Map.of(), Map.of(), Map.of(), new HashMap<>(), null, null);
    }

    private Map<String, Object> conf(int port) throws IOException {
        Path file = Files.writeString(directory.resolve("redis"), "requirepass secret\n");
        return Map.of(RedisStateProvider.ADDRESS, "127.0.0.1:" + port, RedisStateProvider.PASSWORD_FILE, file.toString());
    }

    @SuppressWarnings("unchecked") // as Storm's own executor of stateful bolts
    private static KeyValueState<Integer, Integer> state(Map<String, Object> conf, String topologyId) {
        State made = new RedisStateProvider().newState("count-4", conf, context(topologyId));
        return (KeyValueState<Integer, Integer>) made;
    }

    @Test
    void aTaskGoesOnWithWhatItsTopologyCommittedAndNoOther() throws Exception {
        try (FakeRedis redis = new FakeRedis("secret")) {
            Map<String, Object> conf = conf(redis.port());
            KeyValueState<Integer, Integer> before = state(conf, "words-1-100");
            before.put(7, 41);
            before.prepareCommit(1);
            before.commit(1);
            before.put(7, 99); // after the checkpoint
            assertEquals(41, state(conf, "words-1-100").get(7));
            assertNull(state(conf, "others-2-100").get(7));
        }
    }

    @Test
    void aWrongPasswordAndARedisThatIsNotThereAreNamed() throws Exception {
        int port;
        try (FakeRedis redis = new FakeRedis("another")) {
            port = redis.port();
            Map<String, Object> conf = conf(port);
            assertMessage("Redis at 127.0.0.1:" + port + " cannot be used for the state of count-4: ", () -> state(conf, "words-1-100"));
        }
        Map<String, Object> conf = conf(port);
        assertMessage("Redis at 127.0.0.1:" + port + " cannot be used", () -> state(conf, "words-1-100"));
        IllegalArgumentException none = assertThrows(IllegalArgumentException.class, () -> state(Map.of(), "words-1-100"));
        assertTrue(none.getMessage().contains("deployed without Redis"), none.getMessage());
    }

    private static void assertMessage(String begin, Executable call) {
        String message = assertThrows(IllegalStateException.class, call).getMessage();
        assertTrue(message.startsWith(begin), message);
    }

    /** Hashes, as far as Storm's state needs them. */
    private static final class FakeRedis implements AutoCloseable {
        private final Map<String, Map<String, String>> hashes = new ConcurrentHashMap<>();
        private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final String password;

        FakeRedis(String password) throws IOException {
            this.password = password;
            daemon(this::accept);
        }

        int port() {
            return server.getLocalPort();
        }

        @Override
        public void close() throws IOException {
            server.close();
        }

        private static void daemon(Runnable work) {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            thread.start();
        }

        private void accept() {
            while (!server.isClosed()) {
                try {
                    Socket client = server.accept();
                    daemon(() -> serve(client));
                } catch (IOException e) {
                    return;
                }
            }
        }

        private void serve(Socket client) {
            try (client; InputStream in = new BufferedInputStream(client.getInputStream()); OutputStream out = client.getOutputStream()) {
                boolean isIn = false;
                for (List<String> call = read(in); call != null; call = read(in)) {
                    isIn |= call.get(0).equals("AUTH") && call.get(call.size() - 1).equals(password);
                    String answer = call.get(0).equals("CLIENT") ? "+OK\r\n" : isIn ? answer(call) : "-WRONGPASS\r\n";
                    out.write(answer.getBytes(StandardCharsets.ISO_8859_1));
                    out.flush();
                }
            } catch (IOException e) {
                // The client is gone.
            }
        }

        private String answer(List<String> call) {
            String key = call.size() > 1 ? call.get(1) : "";
            Map<String, String> hash = hashes.getOrDefault(key, Map.of());
            return switch (call.get(0)) {
                case "EXISTS" -> ":" + (hashes.containsKey(key) ? 1 : 0) + "\r\n";
                case "HGET" -> bulk(hash.get(call.get(2)));
                case "HGETALL" -> "*" + 2 * hash.size() + "\r\n"
                    + hash.entrySet().stream().map(each -> bulk(each.getKey()) + bulk(each.getValue())).collect(Collectors.joining());
                case "HMSET" -> {
                    for (int i = 2; i < call.size(); i += 2) {
                        hashes.computeIfAbsent(key, unknown -> new ConcurrentHashMap<>()).put(call.get(i), call.get(i + 1));
                    }
                    yield "+OK\r\n";
                }
                case "DEL" -> ":" + (hashes.remove(key) == null ? 0 : 1) + "\r\n";
                default -> "+OK\r\n";
            };
        }

        private static String bulk(String value) {
            return value == null ? "$-1\r\n" : "$" + value.length() + "\r\n" + value + "\r\n";
        }

        private static List<String> read(InputStream in) throws IOException {
            String head = line(in);
            if (head == null) {
                return null;
            }
            List<String> call = new ArrayList<>();
            for (int left = Integer.parseInt(head.substring(1)); left > 0; left--) {
                byte[] value = in.readNBytes(Integer.parseInt(line(in).substring(1)));
                in.readNBytes(2);
                call.add(new String(value, StandardCharsets.ISO_8859_1));
            }
            return call;
        }

        private static String line(InputStream in) throws IOException {
            StringBuilder text = new StringBuilder();
            for (int c = in.read(); c != '\n'; c = in.read()) {
                if (c < 0) {
                    return null;
                }
                text.append((char) c);
            }
            return text.toString().strip();
        }
    }
}
