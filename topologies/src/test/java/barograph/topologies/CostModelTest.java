package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;

class CostModelTest {
    private static final long TWENTY_MS = 20_000_000L;

    private static long cpuNanos() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    @Test
    void busyBurnsItsCostInCpuTime() {
        long before = cpuNanos();
        CostModel.BUSY.spend(TWENTY_MS);
        assertTrue(cpuNanos() - before >= TWENTY_MS);
    }

    @Test
    void sleepWaitsWithoutCpu() {
        CostModel.SLEEP.spend(TWENTY_MS);
        long cpu = cpuNanos();
        long wall = System.nanoTime();
        CostModel.SLEEP.spend(TWENTY_MS);
        assertTrue(System.nanoTime() - wall >= TWENTY_MS);
        assertTrue(cpuNanos() - cpu < TWENTY_MS / 4);
    }

    @Test
    void anInterruptedThreadDoesNotWait() {
        Thread.currentThread().interrupt();
        long wall = System.nanoTime();
        CostModel.SLEEP.spend(3600L * 1_000_000_000L);
        CostModel.BUSY.spend(3600L * 1_000_000_000L);
        assertTrue(System.nanoTime() - wall < 60_000_000_000L);
        assertTrue(Thread.interrupted());
    }

    @Test
    void readsItsName() {
        assertEquals(CostModel.BUSY, CostModel.of("busy"));
        String message = assertThrows(IllegalArgumentException.class, () -> CostModel.of("lazy")).getMessage();
        assertTrue(message.contains("lazy") && message.contains("none, sleep, busy"), message);
    }
}
