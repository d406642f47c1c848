package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.EmissionRecords;
import barograph.topologies.EpochClock;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class SamplePosterTest {
    private static final Duration WINDOW = Duration.ofMillis(50);
    private static final Duration LONG = Duration.ofHours(1);
    private static final String TOPOLOGY = "star-1";

    @TempDir
    Path directory;
    private final List<String> received = new CopyOnWriteArrayList<>();
    private final List<String> sources = new CopyOnWriteArrayList<>();
    private final List<String> topologies = new CopyOnWriteArrayList<>();
    private final List<String> tokens = new CopyOnWriteArrayList<>();
    private final List<InetSocketAddress> clients = new CopyOnWriteArrayList<>();
    private final List<Double> factors = new CopyOnWriteArrayList<>();
    private volatile String said = "{}";
    private volatile int status = 200;

    private HttpServer service(int port) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.createContext("/samples", this::take);
        server.start();
        return server;
    }

    private void take(HttpExchange exchange) throws IOException {
        received.addAll(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8).lines().toList());
        sources.add(String.valueOf(exchange.getRequestHeaders().getFirst("X-Barograph-Sources")));
        topologies.add(String.valueOf(exchange.getRequestHeaders().getFirst("X-Barograph-Topology")));
        tokens.add(String.valueOf(exchange.getRequestHeaders().getFirst("Authorization")));
        clients.add(exchange.getRemoteAddress());
        byte[] answer = said.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, answer.length);
        exchange.getResponseBody().write(answer);
        exchange.close();
    }

    private void hear(SamplesAnswer answer) {
        answer.factor().ifPresent(factors::add);
    }

    private static URI samples(int port) {
        return URI.create("http://127.0.0.1:" + port + "/samples");
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static void waitFor(BooleanSupplier condition) throws InterruptedException {
        for (int i = 0; i < 200 && !condition.getAsBoolean(); i++) {
            Thread.sleep(50);
        }
        assertTrue(condition.getAsBoolean());
    }

    @Test
    void sendsTheWindowsLinesInOneRequestWithTheToken() throws Exception {
        Path token = directory.resolve("token");
        Files.writeString(token, "secret\n");
        HttpServer server = service(0);
        try (SamplePoster poster = new SamplePoster(samples(server.getAddress().getPort()), TOPOLOGY, token, null, LONG, this::hear)) {
            poster.offer("{\"seq\": 1}");
            poster.offer("{\"seq\": 2}");
            poster.start();
        }
        try {
            waitFor(() -> received.size() == 2); // it has been sent, and may still be on its way
        } finally {
            server.stop(0);
        }
        assertEquals(List.of("{\"seq\": 1}", "{\"seq\": 2}"), received);
        assertEquals(List.of(TOPOLOGY, TOPOLOGY), topologies, "also of who has no lines yet");
        assertEquals(List.of("Bearer secret", "Bearer secret"), tokens); // the first one asked what there is to know
        assertEquals(List.of(), factors);
    }

    @Test
    void nobodyWaitsForADeadServiceAndTheBacklogIsBounded() throws Exception {
        SamplePoster poster = new SamplePoster(samples(freePort()), TOPOLOGY, null, null, WINDOW, this::hear);
        poster.start();
        long start = System.nanoTime();
        for (int i = 0; i < 10_000; i++) {
            poster.offer("{}");
        }
        assertTrue(System.nanoTime() - start < 10_000_000_000L);
        assertTrue(poster.dropped() >= 10_000 - 2 * SamplePoster.BACKLOG_LINES - 1);
        long closing = System.nanoTime();
        poster.close();
        assertTrue(System.nanoTime() - closing < 10_000_000_000L);
    }

    @Test
    void whatCouldNotBeSentIsSentWhenTheServiceComesBack() throws Exception {
        int port = freePort();
        Path token = directory.resolve("token");
        SamplePoster poster = new SamplePoster(samples(port), TOPOLOGY, token, null, WINDOW, this::hear);
        poster.start();
        poster.offer("{\"seq\": 1}");
        Thread.sleep(300);
        HttpServer server = service(port);
        Thread.sleep(300);
        assertEquals(List.of(), received);
        Files.writeString(token, "late");
        poster.offer("{\"seq\": 2}");
        waitFor(() -> received.size() >= 2);
        poster.close();
        server.stop(0);
        assertEquals(List.of("{\"seq\": 1}", "{\"seq\": 2}"), received);
        assertEquals(0, poster.dropped());
    }

    @Test
    void everyAnswerMayChangeTheInputRateAndABadOneKeepsIt() throws Exception {
        HttpServer server = service(0);
        said = "{\"input_rate_factor\": 2}";
        try (SamplePoster poster = new SamplePoster(samples(server.getAddress().getPort()), TOPOLOGY, null, null, WINDOW, this::hear)) {
            poster.start();
            waitFor(() -> !factors.isEmpty());
            for (String bad : List.of("", "{}", "[1]", "no json {", "{\"input_rate_factor\": null}", "{\"input_rate_factor\": \"2\"}",
                "{\"input_rate_factor\": 0}", "{\"input_rate_factor\": -1}", "{\"input_rate_factor\": 1e999}")) {
                said = bad;
                offerAndWait(poster);
            }
            status = 500;
            said = "{\"input_rate_factor\": 9}";
            offerAndWait(poster);
            status = 200;
            said = "{\"other\": {\"x\": [1]}, \"input_rate_factor\": 0.25}";
            offerAndWait(poster);
            waitFor(() -> factors.contains(0.25));
        } finally {
            server.stop(0);
        }
        assertEquals(List.of(2.0, 0.25), factors.stream().distinct().toList());
    }

    @Test
    void aSourceThatBeginsIsToldWhatIsOnRecordThen() throws Exception {
        String onRecord = "{\"topology\": \"star-1\", \"schedules\": {\"7\": {\"t\": %d, \"behind\": %d}}, \"input_rates\": [[0, 1]]}";
        HttpServer server = service(0);
        said = onRecord.formatted(1010, 3);
        List<EmissionRecords> heard = new CopyOnWriteArrayList<>();
        URI uri = samples(server.getAddress().getPort());
        try (SamplePoster poster = new SamplePoster(uri, TOPOLOGY, null, null, LONG, answer -> heard.add(answer.records()))) {
            poster.offer("{\"seq\": 1}");
            poster.start();
            waitFor(() -> !heard.isEmpty());
            EmissionRecords first = heard.get(0);
            assertEquals(3, first.of(7, "spout_1").behind());
            said = onRecord.formatted(1012, 5);
            long began = EpochClock.nowNanos();
            assertTrue(first.ask(7));
            waitFor(() -> first.areSince(began));
            assertEquals(5, first.of(7, "spout_1").behind());
            assertEquals(1_012_000_000_000L, first.of(7, "spout_1").untilNanos());
            server.stop(0);
            long again = EpochClock.nowNanos();
            first.ask(7);
            Thread.sleep(300);
            assertEquals(5, first.of(7, "spout_1").behind());
            assertFalse(first.areSince(again));
        } finally {
            server.stop(0);
        }
        assertEquals(List.of("null", "7 star-1"), sources.stream().distinct().toList());
        assertTrue(tokens.size() <= 4, "nobody else asks, and lines wait for their window; what is answered late is asked again: " + sources);
        assertEquals(List.of(), received);
    }

    /** The answer to a line is read before the next line is sent. */
    private void offerAndWait(SamplePoster poster) throws InterruptedException {
        for (int i = 0; i < 2; i++) {
            int seen = received.size();
            poster.offer("{}");
            waitFor(() -> received.size() > seen);
        }
    }

    @Test
    void overTlsOnlyTheServiceOfTheCertificateGetsLines() throws Exception {
        Path token = Files.writeString(directory.resolve("token"), "secret");
        HttpsServer server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(keyOf("service")));
        server.createContext("/samples", this::take);
        server.start();
        URI uri = URI.create("https://127.0.0.1:" + server.getAddress().getPort() + "/samples");
        try {
            keyOf("stranger");
            try (SamplePoster deceived = new SamplePoster(uri, TOPOLOGY, token, directory.resolve("stranger.crt"), LONG, this::hear)) {
                deceived.offer("{\"seq\": 1}");
                deceived.start();
            }
            assertEquals(List.of(), tokens);
            try (SamplePoster poster = new SamplePoster(uri, TOPOLOGY, token, directory.resolve("service.crt"), WINDOW, this::hear)) {
                poster.start();
                poster.offer("{\"seq\": 2}");
                waitFor(() -> received.contains("{\"seq\": 2}"));
                poster.offer("{\"seq\": 3}");
                waitFor(() -> received.contains("{\"seq\": 3}"));
            }
        } finally {
            server.stop(0);
        }
        assertEquals(List.of("{\"seq\": 2}", "{\"seq\": 3}"), received);
        // One, as a rule: after an answer that came late there is another.
        assertTrue(clients.stream().distinct().count() < clients.size(), "a connection and a handshake for each request: " + clients);
    }

    /** Makes NAME.p12 and NAME.crt, a certificate for 127.0.0.1. */
    private SSLContext keyOf(String name) throws Exception {
        keytool("-genkeypair", "-keyalg", "EC", "-alias", name, "-dname", "CN=" + name, "-ext", "san=ip:127.0.0.1",
            "-keystore", name + ".p12", "-storepass", "secret");
        keytool("-exportcert", "-rfc", "-alias", name, "-keystore", name + ".p12", "-storepass", "secret", "-file", name + ".crt");
        KeyStore store = KeyStore.getInstance(directory.resolve(name + ".p12").toFile(), "secret".toCharArray());
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, "secret".toCharArray());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
    }

    private void keytool(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/keytool"));
        command.addAll(List.of(arguments));
        assertEquals(0, new ProcessBuilder(command).directory(directory.toFile()).start().waitFor());
    }
}
