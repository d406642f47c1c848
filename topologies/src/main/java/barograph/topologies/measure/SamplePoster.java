package barograph.topologies.measure;

import barograph.topologies.EmissionRecords;
import barograph.topologies.EpochClock;
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
import java.util.SortedSet;
import java.util.TreeSet;
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
 * on record of the sources' tasks, for a worker that was restarted. A source that begins asks once more, for what is on record then. Nobody waits for the service: what it cannot take stays in a bounded backlog, the oldest line goes first. Only lines that
 * surely did not arrive are sent again. HttpURLConnection, because HttpClient costs two more threads and some MB. TLS begins
 * with the first window, in this thread, and its connection stays: a worker pays for one handshake.
 */
final class SamplePoster implements Closeable {
    static final int BACKLOG_LINES = 120;
    private static final Logger LOG = LoggerFactory.getLogger(SamplePoster.class);
    private static final int TIMEOUT_MS = 1000;
    private static final long CLOSING_MS = 1500;
    private static final String TOPOLOGY = "X-Barograph-Topology";
    private static final String SOURCES = "X-Barograph-Sources";
    /** How often a service that has not answered yet is asked. */
    private static final long ASKING_MS = 500;

    private final URI uri;
    private final String topology;
    private final Path tokenFile;
    private final Path certificate;
    private final long windowMs;
    private final Consumer<SamplesAnswer> answers;
    private final Deque<String> backlog = new ArrayDeque<>();
    /** Tasks of sources that begin, until their question is sent. */
    private final SortedSet<Integer> beginning = new TreeSet<>();
    private final Thread thread = new Thread(this::run, "barograph-poster");
    private boolean closing;
    private boolean isUrgent;
    private boolean isAnswered;
    private EmissionRecords records;
    private boolean failing;
    private long dropped;
    private SSLSocketFactory tls;

    /** {@code topology}: its id; {@code answers} takes what each answer states; the first one is to an empty request. */
    SamplePoster(URI uri, String topology, Path tokenFile, Path certificate, Duration window, Consumer<SamplesAnswer> answers) {
        this.uri = uri;
        this.topology = topology;
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

    /** Nothing is posted, now: what is on record then comes into the records that the first answer had. */
    private void ask(int task) {
        synchronized (backlog) {
            beginning.add(task);
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
            last = awaitWindow(System.nanoTime() + (isAnswered ? windowMs : Math.min(windowMs, ASKING_MS)) * 1_000_000L);
            Deque<String> lines = isAnswered || last ? takeAll() : new ArrayDeque<>();
            if (!lines.isEmpty()) {
                send(lines);
            }
        }
    }

    /** True once the poster is closing. Sources that begin meanwhile have their answer at once. */
    private boolean awaitWindow(long end) {
        for (String sources = beginningBefore(end); sources != null; sources = beginningBefore(end)) {
            send(new ArrayDeque<>(), sources);
        }
        synchronized (backlog) {
            isUrgent = false;
            return closing;
        }
    }

    /** Who asks, as the service reads it; null where the window ends first. */
    private String beginningBefore(long end) {
        synchronized (backlog) {
            for (long left = 1; left > 0 && !closing && !isUrgent && beginning.isEmpty(); left = (end - System.nanoTime()) / 1_000_000L) {
                try {
                    backlog.wait(left);
                } catch (InterruptedException e) {
                    closing = true;
                }
            }
            if (beginning.isEmpty() || closing) {
                return null;
            }
            String tasks = beginning.stream().map(String::valueOf).collect(Collectors.joining(","));
            beginning.clear();
            return tasks + " " + topology;
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

    private boolean send(Deque<String> lines) {
        return send(lines, null);
    }

    /** True if the service took it. {@code sources} begin; null: none. */
    private boolean send(Deque<String> lines, String sources) {
        byte[] body = lines.stream().map(line -> line + "\n").collect(Collectors.joining()).getBytes(StandardCharsets.UTF_8);
        HttpURLConnection connection;
        try {
            connection = open(body.length);
            if (sources != null) {
                connection.setRequestProperty(SOURCES, sources);
            }
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
        connection.setRequestProperty(TOPOLOGY, topology);
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
        long askedNanos = EpochClock.nowNanos();
        try (OutputStream out = connection.getOutputStream()) {
            out.write(body);
        }
        int status = connection.getResponseCode();
        String answer = read(status < 400 ? connection.getInputStream() : connection.getErrorStream());
        if (status / 100 == 2) {
            take(SamplesAnswer.of(answer), askedNanos);
        }
        return status;
    }

    private void take(SamplesAnswer answer, long askedNanos) {
        if (answer.records().areKnown()) {
            records = records == null ? answer.records() : records;
            records.askBy(this::ask);
        }
        answers.accept(answer); // its rate first: a source that was waiting for the records begins at once
        if (answer.records().areKnown()) {
            records.renew(answer.records(), askedNanos);
        }
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
