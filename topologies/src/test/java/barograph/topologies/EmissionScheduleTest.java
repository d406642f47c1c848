package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
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
        long expected = schedule.countDue(stalled + 1);
        assertEquals(expected, schedule.behind());
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
        assertEquals(0, schedule.behind());
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
            sum += schedule.countDue(START + (second + 1) * SECOND);
        }
        assertEquals(new EmissionSchedule(33.3, 2, 8, START).countDue(START + 100 * SECOND), sum);
        assertEquals(33.3 / 8 * 100, sum, 1.0);
    }

    @Test
    void countsPeriodsBeforeTheStartAsNothing() {
        assertEquals(0, new EmissionSchedule(100, 0, 1, START).countDue(START - 5 * SECOND));
    }

    @ParameterizedTest
    @CsvSource({"0", "-1", "NaN", "Infinity"})
    void refusesRatesThatAreNone(double rate) {
        String message = assertThrows(IllegalArgumentException.class, () -> new EmissionSchedule(rate, 0, 1, START)).getMessage();
        assertTrue(message.contains("rate_per_s"), message);
    }

    @ParameterizedTest
    @CsvSource({"300, 8, 1.5", "300, 8, 0.5", "240, 4, 3", "33.3, 8, 0.1", "720, 12, 2"})
    void afterAChangeOfRateThereIsNeitherABurstNorAGap(double rate, int tasks, double factor) {
        EmissionSchedule schedule = new EmissionSchedule(rate, 1, tasks, START);
        long change = START + 10 * SECOND;
        List<Long> due = new ArrayList<>();
        while (schedule.isDue(change)) {
            due.add(schedule.take());
        }
        schedule.follow(factor, change);
        while (schedule.isDue(change + 10 * SECOND)) {
            due.add(schedule.take());
        }
        double before = SECOND * tasks / rate;
        double after = before / factor;
        assertEquals(10 * SECOND / before + 10 * SECOND / after, due.size(), 2);
        for (int i = 1; i < due.size(); i++) {
            long gap = due.get(i) - due.get(i - 1);
            boolean across = due.get(i - 1) <= change && due.get(i) > change;
            assertTrue(across ? gap > 0 && gap <= before + after + 2 : Math.abs(gap - (due.get(i) > change ? after : before)) < 1.5, "gap " + gap);
        }
    }

    @Test
    void whatWasDueBeforeTheChangeStaysDue() {
        EmissionSchedule schedule = new EmissionSchedule(100, 0, 1, START);
        long change = START + 5 * SECOND;
        long until = change + 5 * SECOND;
        schedule.follow(0.1, change);
        schedule.follow(2, change + SECOND);
        assertEquals(500, schedule.countDue(change), 1);
        assertEquals(10, schedule.countDue(change + SECOND), 1);
        assertEquals(800, schedule.countDue(until), 1);
        schedule.countDue(until + 1);
        long expected = schedule.behind();
        assertEquals(500 + 10 + 800, expected, 3);
        assertEquals(10 * SECOND, schedule.behindNanos(until), SECOND / 50.0);
        long taken = 0;
        long last = 0;
        for (; schedule.isDue(until); taken++) {
            long due = schedule.take();
            assertTrue(due > last);
            last = due;
        }
        assertEquals(expected, taken);
        assertEquals(0, schedule.behindNanos(until));
    }

    @Test
    void tasksThatChangeAtDifferentTimesShareOneGrid() {
        List<Long> due = new ArrayList<>();
        for (int task = 0; task < 4; task++) {
            EmissionSchedule schedule = new EmissionSchedule(100, task, 4, START);
            schedule.follow(1.5, START + SECOND + task * 300_000_000L);
            for (int n = 0; n < 200; n++) {
                due.add(schedule.take());
            }
        }
        List<Long> settled = due.stream().filter(t -> t > START + 3 * SECOND && t < START + 5 * SECOND).sorted().toList();
        assertEquals(300, settled.size(), 1);
        for (int i = 1; i < settled.size(); i++) {
            assertEquals(SECOND / 150.0, settled.get(i) - settled.get(i - 1), 1.5);
        }
    }

    @Test
    void theSameFactorChangesNothingAndOneRestoresTheRate() {
        EmissionSchedule plain = new EmissionSchedule(33.3, 2, 8, START);
        EmissionSchedule followed = new EmissionSchedule(33.3, 2, 8, START);
        followed.follow(1, START + SECOND);
        for (int i = 1; i <= 20; i++) {
            assertEquals(plain.countDue(START + i * SECOND), followed.countDue(START + i * SECOND));
        }
        followed.follow(7, START + 20 * SECOND);
        followed.follow(1, START + 20 * SECOND + 1);
        assertEquals(plain.countDue(START + 60 * SECOND), followed.countDue(START + 60 * SECOND), 1);
    }

    /** The source may have taken a tuple with a clock read just after the one that the change was made with. */
    @Test
    void aTupleThatWasTakenIsNotDueAgain() {
        EmissionSchedule schedule = new EmissionSchedule(100, 0, 1, START);
        long first = schedule.take();
        schedule.follow(3, first - 1000);
        assertTrue(schedule.take() > first);
        assertEquals(1, schedule.countDue(first + 1));
        assertEquals(0, schedule.behind());
    }

    @Test
    void nothingIsLostWhileOneThreadTakesAndAnotherChangesTheRate() throws InterruptedException {
        EmissionSchedule schedule = new EmissionSchedule(1000, 0, 1, START);
        AtomicLong now = new AtomicLong(START);
        Thread changes = new Thread(() -> {
            for (int i = 0; i < 2000; i++) {
                schedule.follow(1 + i % 3, now.get());
            }
        });
        changes.start();
        long taken = 0;
        long last = 0;
        for (int ms = 1; ms <= 20_000; ms++) {
            now.addAndGet(SECOND / 1000);
            while (schedule.isDue(now.get())) {
                long due = schedule.take();
                assertTrue(due > last);
                last = due;
                taken++;
            }
        }
        changes.join();
        assertEquals(schedule.countDue(now.get() + 1), taken + (schedule.isDue(now.get()) ? 1 : 0));
        assertTrue(taken >= 20_000, "taken " + taken);
    }

    /** 48 h with a change every 10 s: what is behind both the source and the sampler is forgotten. */
    @Test
    void changesOfRateThatAreOverAreForgotten() throws Exception {
        EmissionSchedule schedule = new EmissionSchedule(10, 0, 1, START);
        long due = 0;
        long taken = 0;
        for (int change = 1; change <= 17_280; change++) {
            long now = START + change * 10L * SECOND;
            for (; schedule.isDue(now); taken++) {
                schedule.take();
            }
            due += schedule.countDue(now + 1);
            assertEquals(0, schedule.behind());
            schedule.follow(1 + change % 2, now);
        }
        assertEquals(taken, due);
        assertEquals(10 * 86_400 + 20 * 86_400, due, 10);
        assertTrue(stretches(schedule) <= 2, "stretches: " + stretches(schedule));
    }

    /** As many as can be reached from the schedule. */
    private static int stretches(EmissionSchedule schedule) throws ReflectiveOperationException {
        Object stretch = field(field(schedule, "taken"), "stretch");
        int number = 0;
        for (; stretch != null; stretch = field(stretch, "next")) {
            number++;
        }
        return number;
    }

    private static Object field(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
