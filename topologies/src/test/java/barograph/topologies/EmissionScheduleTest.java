package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class EmissionScheduleTest {
    private static final long SECOND = 1_000_000_000L;
    private static final long START = 1_763_712_345L * SECOND + 123_456_789L;

    @ParameterizedTest
    @CsvSource({"240, 4", "1440, 12", "7.5, 3", "0.5, 2", "33.3, 8", "100000, 16"})
    void tasksTogetherMakeOneEvenGrid(double rate, int tasks) {
        List<Long> due = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            EmissionSchedule schedule = new EmissionSchedule(rate, task, tasks, START);
            for (int n = 0; n < 50; n++) {
                due.add(schedule.take());
            }
        }
        Collections.sort(due);
        assertTrue(due.get(0) >= START);
        assertTrue(due.get(0) < START + SECOND / rate + 1);
        for (int i = 1; i < due.size(); i++) {
            assertEquals(SECOND / rate, due.get(i) - due.get(i - 1), 1.5);
        }
    }

    @ParameterizedTest
    @CsvSource({"240, 4", "7.5, 3", "33.3, 8"})
    void everyTupleThatIsDueIsEmittedLateIfNeedBe(double rate, int tasks) {
        EmissionSchedule schedule = new EmissionSchedule(rate, 1, tasks, START);
        long stalled = START + 60 * SECOND;
        long expected = schedule.dueBefore(stalled + 1);
        assertEquals(rate / tasks * 60, expected, 1.0);
        assertEquals(60 * SECOND, schedule.behindNanos(stalled), 2.0 * SECOND * tasks / rate);
        long emitted = 0;
        long last = 0;
        while (schedule.isDue(stalled)) {
            long due = schedule.take();
            assertTrue(due > last && due <= stalled);
            last = due;
            emitted++;
        }
        assertEquals(expected, emitted);
        assertEquals(0, schedule.behindNanos(stalled));
    }

    @Test
    void nothingIsEmittedBeforeItIsDue() {
        EmissionSchedule schedule = new EmissionSchedule(10, 0, 1, START);
        long first = schedule.take();
        assertFalse(schedule.isDue(first + SECOND / 10 - 2));
        assertTrue(schedule.isDue(first + SECOND / 10 + 2));
    }

    @Test
    void dueInSecondsAddsUpToDueOverall() {
        EmissionSchedule schedule = new EmissionSchedule(33.3, 2, 8, START);
        long sum = 0;
        for (int second = 0; second < 100; second++) {
            sum += schedule.dueBefore(START + (second + 1) * SECOND) - schedule.dueBefore(START + second * SECOND);
        }
        assertEquals(schedule.dueBefore(START + 100 * SECOND), sum);
        assertEquals(33.3 / 8 * 100, sum, 1.0);
    }

    @Test
    void countsPeriodsBeforeTheStartAsNothing() {
        assertEquals(0, new EmissionSchedule(100, 0, 1, START).dueBefore(START - 5 * SECOND));
    }

    @ParameterizedTest
    @CsvSource({"0", "-1", "NaN", "Infinity"})
    void refusesRatesThatAreNone(double rate) {
        String message = assertThrows(IllegalArgumentException.class, () -> new EmissionSchedule(rate, 0, 1, START)).getMessage();
        assertTrue(message.contains("rate_per_s"), message);
    }
}
