package barograph.bridge;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The policy service on the master, over HTTP; where its address says https, with one certificate and no other. */
final class PolicyService implements Rounds.Service {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SHOWN_OF_AN_ERROR = 200;

    private final URI url;
    private final Path tokenFile;
    private final Duration timeout;
    private final HttpClient http;

    /** Throws IllegalArgumentException where the certificate is wanted and cannot be read. */
    PolicyService(URI url, Path tokenFile, Duration timeout, Path certificate) {
        this.url = url;
        this.tokenFile = tokenFile;
        this.timeout = timeout;
        HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout);
        this.http = (url.getScheme().equals("https") ? builder.sslContext(trusting(certificate)) : builder).build();
    }

    private static SSLContext trusting(Path certificate) {
        try (InputStream content = Files.newInputStream(certificate)) {
            KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
            trusted.load(null, null);
            trusted.setCertificateEntry("policy-service", CertificateFactory.getInstance("X.509").generateCertificate(content));
            TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            managers.init(trusted);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, managers.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException e) {
            throw new IllegalArgumentException("the policy service's certificate " + certificate + " cannot be read: " + e, e);
        }
    }

    @Override
    public JsonNode schedule(Request request) throws ServiceFailed {
        return post("schedule", request);
    }

    @Override
    public void applied(Report report) throws ServiceFailed {
        post("applied", report);
    }

    private JsonNode post(String call, Object body) throws ServiceFailed {
        CompletableFuture<HttpResponse<String>> pending = http.sendAsync(request(call, body), BodyHandlers.ofString());
        try {
            HttpResponse<String> response = pending.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            return content(call, response);
        } catch (TimeoutException e) {
            pending.cancel(true);
            throw new ServiceFailed(call + ": no answer within " + timeout.toMillis() / 1000.0 + " s from " + url, e);
        } catch (ExecutionException e) {
            throw new ServiceFailed(call + ": " + url + " cannot be reached: " + e.getCause(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ServiceFailed(call + ": interrupted", e);
        }
    }

    private HttpRequest request(String call, Object body) throws ServiceFailed {
        try {
            return HttpRequest.newBuilder(url.resolve("/" + call))
                .header("Authorization", "Bearer " + Files.readString(tokenFile).strip())
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(JSON.writeValueAsString(body)))
                .build();
        } catch (IOException e) {
            throw new ServiceFailed(call + ": token file " + tokenFile + " cannot be read: " + e.getMessage(), e);
        }
    }

    private static JsonNode content(String call, HttpResponse<String> response) throws ServiceFailed {
        String text = response.body();
        if (response.statusCode() != 200) {
            String shown = text.substring(0, Math.min(SHOWN_OF_AN_ERROR, text.length())).replace('\n', ' ');
            throw new ServiceFailed(call + ": HTTP " + response.statusCode() + ": " + shown, null);
        }
        try {
            return JSON.readTree(text);
        } catch (JsonProcessingException e) {
            throw new ServiceFailed(call + ": the answer is not JSON: " + e.getOriginalMessage(), e);
        }
    }
}
