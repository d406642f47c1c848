package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SettingsTest {
    private static final String URL = "http://10.0.0.1:8700";

    @Test
    void onlyTheAddressMustBeGiven() {
        Settings settings = Settings.of(Map.of("barograph.service.url", URL));
        assertEquals(new Settings(URI.create(URL), Path.of("/etc/barograph/service.crt"), Path.of("/etc/barograph/token"),
            Duration.ofSeconds(2), Path.of("/var/log/barograph/bridge.jsonl"),
            Path.of("/var/lib/barograph/storm/bridge-plans.json"), Duration.ofSeconds(60),
            Path.of("/opt/barograph/storm/foreign"), Duration.ofSeconds(10)), settings);
    }

    @Test
    void aMissingAddressIsNamed() {
        assertTrue(message(Map.of()).contains("barograph.service.url"));
    }

    @Test
    void aTimeoutOfZeroIsRefused() {
        assertTrue(message(Map.of("barograph.service.url", URL, "barograph.service.timeout.s", 0)).contains("is 0"));
    }

    private static String message(Map<String, Object> conf) {
        return assertThrows(IllegalArgumentException.class, () -> Settings.of(conf)).getMessage();
    }
}
