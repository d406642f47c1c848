package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class EpochClockTest {
    private static final long SECOND = 1_000_000_000L;
    private static final long START = 1_763_712_345L * SECOND;

    @Test
    void timeGoesOnWhenTheWallClockIsSteppedBack() {
        AtomicLong wall = new AtomicLong(START);
        AtomicLong monotonic = new AtomicLong(77);
        EpochClock clock = new EpochClock(wall::get, monotonic::get);
        assertEquals(START, clock.now());
        wall.addAndGet(-3600 * SECOND);
        monotonic.addAndGet(SECOND);
        assertEquals(START + SECOND, clock.now());
        assertEquals(START - 3600 * SECOND, new EpochClock(wall::get, monotonic::get).now());
    }

    /** A worker under a CPU quota stands still for tens of ms, and would be wrong by them for the rest of its life. */
    @Test
    void aPauseWhileTheClocksAreReadDoesNotCount() {
        Deque<Long> monotonic = new ArrayDeque<>(List.of(0L, SECOND, SECOND, SECOND + 100, SECOND + 100));
        Deque<Long> wall = new ArrayDeque<>(List.of(START, START + SECOND + 50));
        EpochClock clock = new EpochClock(wall::remove, monotonic::remove);
        assertEquals(START + SECOND + 100, clock.now());
    }

    @Test
    void theWorkersTimeIsTheMachines() {
        assertEquals(System.currentTimeMillis(), EpochClock.toMs(EpochClock.nowNanos()), 200);
        long before = EpochClock.nowNanos();
        assertTrue(EpochClock.nowNanos() >= before);
    }
}
