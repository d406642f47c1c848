package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PolicyServiceTest {
    private static final Request REQUEST = new Request(1, 1763712345.0, List.of(), List.of());

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
        assertEquals("{\"v\":1,\"t\":1.763712345E9,\"machines\":[],\"topologies\":[]}", sent.toString());
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

    private String failure() {
        return assertThrows(ServiceFailed.class, () -> service().schedule(REQUEST)).getMessage();
    }

    private PolicyService service() {
        URI url = URI.create("http://127.0.0.1:" + server.getAddress().getPort());
        return new PolicyService(url, token, timeout);
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
