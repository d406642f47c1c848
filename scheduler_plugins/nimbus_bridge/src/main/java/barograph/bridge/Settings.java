package barograph.bridge;

import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;

/** The bridge's part of storm.yaml. */
record Settings(URI serviceUrl, Path certificate, Path tokenFile, Duration serviceTimeout, Path events, Path plans,
                Duration planLimit, Path foreignJars, Duration foreignLimit) {

    static Settings of(Map<String, Object> conf) {
        return new Settings(
            url(conf),
            Path.of(text(conf, "barograph.service.certificate", "/etc/barograph/service.crt")),
            Path.of(text(conf, "barograph.token.file", "/etc/barograph/token")),
            seconds(conf, "barograph.service.timeout.s", 2.0),
            Path.of(text(conf, "barograph.bridge.events", "/var/log/barograph/bridge.jsonl")),
            Path.of(text(conf, "storm.local.dir", "/var/lib/barograph/storm"), "bridge-plans.json"),
            seconds(conf, "barograph.plan.timeout.s", 60.0),
            Path.of(text(conf, "barograph.foreign.jars", System.getProperty("storm.home", "/opt/barograph/storm") + "/foreign")),
            seconds(conf, "barograph.foreign.timeout.s", 10.0));
    }

    private static URI url(Map<String, Object> conf) {
        String text = text(conf, "barograph.service.url", "");
        if (!text.startsWith("http://") && !text.startsWith("https://")) {
            throw new IllegalArgumentException("storm.yaml: barograph.service.url is \"" + text
                + "\"; it must be the policy service's address, such as https://10.0.0.1:8700");
        }
        return URI.create(text);
    }

    private static String text(Map<String, Object> conf, String key, String otherwise) {
        Object value = conf.get(key);
        return value == null ? otherwise : value.toString();
    }

    private static Duration seconds(Map<String, Object> conf, String key, double otherwise) {
        Object value = conf.getOrDefault(key, otherwise);
        if (!(value instanceof Number number) || number.doubleValue() <= 0) {
            throw new IllegalArgumentException("storm.yaml: " + key + " is " + value + "; seconds above 0 are allowed");
        }
        return Duration.ofMillis(Math.round(number.doubleValue() * 1000));
    }
}
