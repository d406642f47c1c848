package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PolicyServiceTest {
    private static final Request REQUEST = new Request(Request.VERSION, 1763712345.0, List.of(), List.of(), null);

    @TempDir
    Path folder;
    private final List<String> seen = new ArrayList<>();
    private final CountDownLatch never = new CountDownLatch(1);
    private HttpServer server;
    private Path token;
    private Duration timeout = Duration.ofSeconds(20);
    private int status = 200;
    private String body = World.NOTHING;

    @BeforeEach
    void start() throws IOException {
        token = Files.writeString(folder.resolve("token"), "secret\n");
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", this::answer);
        server.start();
    }

    @AfterEach
    void stop() {
        never.countDown();
        server.stop(0);
    }

    @Test
    void theRequestIsPostedWithTheToken() throws Exception {
        assertEquals(World.json(World.NOTHING), service().schedule(REQUEST));
        JsonNode sent = World.json(seen.get(2));
        assertEquals(List.of("POST /schedule", "Bearer secret"), seen.subList(0, 2));
        assertEquals("{\"v\":2,\"t\":1.763712345E9,\"machines\":[],\"topologies\":[],\"last_decision\":null}", sent.toString());
    }

    @Test
    void reportsHaveTheContractsWords() throws Exception {
        body = "{}";
        service().applied(new Report("d17", "star-1-1", 1.5, false, "why"));
        assertEquals("POST /applied", seen.get(0));
        assertEquals("{\"decision_id\":\"d17\",\"topology\":\"star-1-1\",\"t\":1.5,\"ok\":false,\"message\":\"why\"}", seen.get(2));
    }

    @Test
    void anErrorOfTheServiceIsToldWithItsStatus() {
        status = 500;
        body = "policy stela: ZeroDivisionError";
        assertTrue(failure().contains("HTTP 500: policy stela: ZeroDivisionError"), failure());
    }

    @Test
    void whatIsNoJsonIsNoAnswer() {
        body = "<html>";
        assertTrue(failure().contains("not JSON"), failure());
    }

    @Test
    void silenceEndsAtTheTimeout() {
        body = null;
        timeout = Duration.ofMillis(300);
        long began = System.nanoTime();
        assertTrue(failure().contains("no answer within 0.3 s"));
        assertTrue(System.nanoTime() - began < 5_000_000_000L);
    }

    @Test
    void aServiceThatIsNotThereIsNamed() {
        server.stop(0);
        assertTrue(failure().contains("cannot be reached"), failure());
    }

    @Test
    void aMissingTokenIsNamed() throws IOException {
        Files.delete(token);
        assertTrue(failure().contains(token.toString()), failure());
    }

    @Test
    void onlyTheCertificateThatIsGivenIsBelieved() throws Exception {
        HttpsServer secure = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        secure.setHttpsConfigurator(new HttpsConfigurator(keyOf("service")));
        secure.createContext("/", this::answer);
        secure.start();
        try {
            URI url = URI.create("https://127.0.0.1:" + secure.getAddress().getPort());
            new PolicyService(url, token, timeout, folder.resolve("service.crt")).schedule(REQUEST);
            assertEquals("POST /schedule", seen.get(0));
            keyOf("stranger");
            PolicyService deceived = new PolicyService(url, token, timeout, folder.resolve("stranger.crt"));
            assertTrue(assertThrows(ServiceFailed.class, () -> deceived.schedule(REQUEST)).getMessage().contains("certificat"));
            assertEquals(3, seen.size(), "the token was not sent");
            Path none = folder.resolve("none.crt");
            assertTrue(assertThrows(IllegalArgumentException.class, () -> new PolicyService(url, token, timeout, none)).getMessage()
                .contains(none.toString()));
        } finally {
            secure.stop(0);
        }
    }

    /** Makes NAME.p12 and NAME.crt, a certificate for 127.0.0.1. */
    private SSLContext keyOf(String name) throws Exception {
        keytool("-genkeypair", "-keyalg", "EC", "-alias", name, "-dname", "CN=" + name, "-ext", "san=ip:127.0.0.1",
            "-keystore", name + ".p12", "-storepass", "secret");
        keytool("-exportcert", "-rfc", "-alias", name, "-keystore", name + ".p12", "-storepass", "secret", "-file", name + ".crt");
        KeyStore store = KeyStore.getInstance(folder.resolve(name + ".p12").toFile(), "secret".toCharArray());
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, "secret".toCharArray());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
    }

    private void keytool(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/keytool"));
        command.addAll(List.of(arguments));
        assertEquals(0, new ProcessBuilder(command).directory(folder.toFile()).start().waitFor());
    }

    private String failure() {
        return assertThrows(ServiceFailed.class, () -> service().schedule(REQUEST)).getMessage();
    }

    private PolicyService service() {
        URI url = URI.create("http://127.0.0.1:" + server.getAddress().getPort());
        return new PolicyService(url, token, timeout, folder.resolve("none.crt"));
    }

    private void answer(HttpExchange exchange) throws IOException {
        seen.add(exchange.getRequestMethod() + " " + exchange.getRequestURI());
        seen.add(exchange.getRequestHeaders().getFirst("Authorization"));
        seen.add(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
        try {
            if (body == null) {
                never.await();
                return;
            }
            byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(status, bytes.length);
            exchange.getResponseBody().write(bytes);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            exchange.close();
        }
    }
}
