package barograph.topologies.measure;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends lines to the policy service, all that gathered in a window at once, from a thread of its own.
 *
 * <p>The service's answers carry the input rate. Until it has answered once it is asked without lines: that answer also says what is
 * on record of the sources' tasks, for a worker that was restarted. Nobody waits for the service: what it cannot take stays in a bounded backlog, the oldest line goes first. Only lines that
 * surely did not arrive are sent again. HttpURLConnection, because HttpClient costs two more threads and some MB. TLS begins
 * with the first window, in this thread, and its connection stays: a worker pays for one handshake.
 */
final class SamplePoster implements Closeable {
    static final int BACKLOG_LINES = 120;
    private static final Logger LOG = LoggerFactory.getLogger(SamplePoster.class);
    private static final int TIMEOUT_MS = 1000;
    private static final long CLOSING_MS = 1500;
    /** How often a service that has not answered yet is asked. */
    private static final long ASKING_MS = 500;

    private final URI uri;
    private final Path tokenFile;
    private final Path certificate;
    private final long windowMs;
    private final Consumer<SamplesAnswer> answers;
    private final Deque<String> backlog = new ArrayDeque<>();
    private final Thread thread = new Thread(this::run, "barograph-poster");
    private boolean closing;
    private boolean isUrgent;
    private boolean isAnswered;
    private boolean failing;
    private long dropped;
    private SSLSocketFactory tls;

    /** {@code answers} takes what each answer states; the first one is to an empty request. */
    SamplePoster(URI uri, Path tokenFile, Path certificate, Duration window, Consumer<SamplesAnswer> answers) {
        this.uri = uri;
        this.tokenFile = tokenFile;
        this.certificate = certificate;
        this.windowMs = window.toMillis();
        this.answers = answers;
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Takes a line to be sent at the end of the window; never waits for the network. */
    void offer(String line) {
        synchronized (backlog) {
            backlog.addLast(line);
            shorten();
        }
    }

    /** What there is goes now, whatever is left of the window. */
    void flush() {
        synchronized (backlog) {
            isUrgent = true;
            backlog.notifyAll();
        }
    }

    long dropped() {
        synchronized (backlog) {
            return dropped;
        }
    }

    /** Tries once more to send what is left, for at most a second and a half. */
    @Override
    public void close() {
        synchronized (backlog) {
            closing = true;
            backlog.notifyAll();
        }
        try {
            thread.join(CLOSING_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        boolean last = false;
        while (!last) {
            isAnswered = isAnswered || send(new ArrayDeque<>());
            last = awaitWindow();
            Deque<String> lines = isAnswered || last ? takeAll() : new ArrayDeque<>();
            if (!lines.isEmpty()) {
                send(lines);
            }
        }
    }

    /** True once the poster is closing. */
    private boolean awaitWindow() {
        synchronized (backlog) {
            long waitMs = isAnswered ? windowMs : Math.min(windowMs, ASKING_MS);
            long end = System.nanoTime() + waitMs * 1_000_000L;
            for (long left = waitMs; left > 0 && !closing && !isUrgent; left = (end - System.nanoTime()) / 1_000_000L) {
                try {
                    backlog.wait(left);
                } catch (InterruptedException e) {
                    return true;
                }
            }
            isUrgent = false;
            return closing;
        }
    }

    private Deque<String> takeAll() {
        synchronized (backlog) {
            Deque<String> lines = new ArrayDeque<>(backlog);
            backlog.clear();
            return lines;
        }
    }

    private void giveBack(Deque<String> lines) {
        synchronized (backlog) {
            while (!lines.isEmpty()) {
                backlog.addFirst(lines.removeLast());
            }
            shorten();
        }
    }

    private void shorten() {
        while (backlog.size() > BACKLOG_LINES) {
            backlog.removeFirst();
            dropped++;
        }
    }

    /** True if the service took it. */
    private boolean send(Deque<String> lines) {
        byte[] body = lines.stream().map(line -> line + "\n").collect(Collectors.joining()).getBytes(StandardCharsets.UTF_8);
        HttpURLConnection connection;
        try {
            connection = open(body.length);
            connection.connect();
        } catch (IOException | RuntimeException e) {
            giveBack(lines);
            report(e.toString());
            return false;
        }
        try {
            int status = post(connection, body);
            report(status / 100 == 2 ? null : "HTTP " + status);
            return status / 100 == 2;
        } catch (IOException | RuntimeException e) {
            report(e.toString());
            return false;
        }
    }

    private HttpURLConnection open(int length) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection(Proxy.NO_PROXY);
        if (connection instanceof HttpsURLConnection secure && certificate != null) {
            secure.setSSLSocketFactory(trusting());
        }
        connection.setConnectTimeout(TIMEOUT_MS);
        connection.setReadTimeout(TIMEOUT_MS);
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        connection.setFixedLengthStreamingMode(length);
        connection.setRequestProperty("Content-Type", "application/x-ndjson");
        if (tokenFile != null) {
            connection.setRequestProperty("Authorization", "Bearer " + Files.readString(tokenFile).strip());
        }
        return connection;
    }

    /** One for all connections: they are kept by it. */
    private SSLSocketFactory trusting() throws IOException {
        if (tls == null) {
            try (InputStream content = Files.newInputStream(certificate)) {
                KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
                trusted.load(null, null);
                trusted.setCertificateEntry("policy-service", CertificateFactory.getInstance("X.509").generateCertificate(content));
                TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                managers.init(trusted);
                SSLContext context = SSLContext.getInstance("TLS");
                context.init(null, managers.getTrustManagers(), null);
                tls = context.getSocketFactory();
            } catch (GeneralSecurityException e) {
                throw new IOException("the policy service's certificate " + certificate + " cannot be used: " + e, e);
            }
        }
        return tls;
    }

    private int post(HttpURLConnection connection, byte[] body) throws IOException {
        try (OutputStream out = connection.getOutputStream()) {
            out.write(body);
        }
        int status = connection.getResponseCode();
        String answer = read(status < 400 ? connection.getInputStream() : connection.getErrorStream());
        if (status / 100 == 2) {
            answers.accept(SamplesAnswer.of(answer));
        }
        return status;
    }

    /** An answer that was read to its end leaves the connection open for the next window. */
    private static String read(InputStream answer) throws IOException {
        if (answer == null) {
            return "";
        }
        try (answer) {
            return new String(answer.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /** One log line when posting begins to fail and one when it works again. */
    private void report(String failure) {
        if (failure != null && !failing) {
            LOG.warn("samples are not reaching {}: {}; they are still written to disk", uri, failure);
        } else if (failure == null && failing) {
            LOG.info("samples reach {} again; {} lines were dropped", uri, dropped());
        }
        failing = failure != null;
    }
}
