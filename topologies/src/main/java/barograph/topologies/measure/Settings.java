package barograph.topologies.measure;

import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.utils.ObjectReader;

/** Where samples go: keys of {@code storm.yaml}, which Storm merges under the topology's configuration. */
public record Settings(
        String machine, String topology, Path directory, URI samplesUri, Path tokenFile, Path certificate, Duration window) {
    static final String TRAFFIC = "barograph.traffic";
    static final String QUEUE_LIMIT = "barograph.queue.limit";
    static final String DIRECTORY = "barograph.samples.dir";
    static final String SERVICE_URL = "barograph.service.url";
    static final String TOKEN_FILE = "barograph.token.file";
    static final String CERTIFICATE = "barograph.service.certificate";
    static final String WINDOW_S = "barograph.window.s";
    private static final String DEFAULT_DIRECTORY = "/var/log/barograph/workers";
    private static final double DEFAULT_WINDOW_S = 2.0;

    /**
     * Without a service URL nothing is posted; without a token file no token is sent; a certificate is for https. Nimbus writes the
     * topology's id into its configuration.
     */
    static Settings of(Map<String, Object> conf) {
        double windowS = ObjectReader.getDouble(conf.get(WINDOW_S), DEFAULT_WINDOW_S);
        if (!(windowS >= 1 && windowS <= 3600)) {
            throw new IllegalArgumentException(WINDOW_S + " is " + windowS + "; it must be from 1 to 3600 seconds");
        }
        String url = ObjectReader.getString(conf.get(SERVICE_URL), "");
        String certificate = ObjectReader.getString(conf.get(CERTIFICATE), "");
        String token = ObjectReader.getString(conf.get(TOKEN_FILE), "");
        return new Settings(
            machine(conf),
            ObjectReader.getString(conf.get(Config.STORM_ID), ""),
            Path.of(ObjectReader.getString(conf.get(DIRECTORY), DEFAULT_DIRECTORY)),
            url.isEmpty() ? null : samples(url),
            token.isEmpty() ? null : Path.of(token),
            certificate.isEmpty() ? null : Path.of(certificate),
            Duration.ofMillis(Math.round(windowS * 1000)));
    }

    private static URI samples(String url) {
        return URI.create(url.replaceAll("/+$", "") + "/samples");
    }

    /** The name of this machine, as lines and tuples have it. */
    public static String machine(Map<String, Object> conf) {
        Object named = conf.get(Config.STORM_LOCAL_HOSTNAME);
        if (named != null) {
            return named.toString();
        }
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "unknown";
        }
    }
}
