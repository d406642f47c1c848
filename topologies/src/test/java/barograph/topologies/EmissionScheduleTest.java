package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.EmissionRecords.EmissionRecord;
import barograph.topologies.EmissionRecords.RateChange;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class EmissionScheduleTest {
    private static final long SECOND = 1_000_000_000L;
    private static final long START = 1_763_712_345L * SECOND + 123_456_789L;
    /** When a course begins (epoch seconds). */
    private static final long COURSE = START / SECOND + 10;

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

    /** A course as the service hands it on: a change each second, at times of nothing. */
    private static List<RateChange> course(double... factors) {
        List<RateChange> changes = new ArrayList<>();
        double seconds = (START / SECOND) % 1000;
        changes.add(new RateChange(START / SECOND * SECOND, 1, seconds));
        seconds += COURSE - START / SECOND;
        for (int i = 0; i < factors.length; i++) {
            changes.add(new RateChange((COURSE + i) * SECOND, factors[i], seconds));
            seconds += factors[i];
        }
        return changes;
    }

    private static double[] factors(int number) {
        Random random = new Random(3);
        return random.doubles(number).map(each -> each < 0.1 ? 0 : 3 * each).toArray();
    }

    /** What is in force, and half a minute ahead. */
    private static List<RateChange> answer(List<RateChange> course, long now) {
        int inForce = (int) course.stream().filter(change -> change.fromNanos() <= now).count() - 1;
        return course.stream().skip(inForce).filter(change -> change.fromNanos() <= now + 30 * SECOND).toList();
    }

    /** Tuples of the component that are due before the n-th second of the course, from its begin on. */
    private static double integral(double[] factors, double rate, double seconds) {
        double sum = 0;
        for (int i = 0; i < factors.length && i < seconds; i++) {
            sum += factors[i] * Math.min(1, seconds - i);
        }
        return rate * sum;
    }

    @ParameterizedTest
    @CsvSource({"240, 4", "7.5, 3", "33.3, 8", "0.5, 2", "100000, 16"})
    void whatIsDueByAnyTimeIsTheIntegralOfTheCourse(double rate, int tasks) {
        double[] factors = factors(200);
        List<RateChange> course = course(factors);
        double[] due = new double[1 + 4 * factors.length];
        for (int task = 0; task < tasks; task++) {
            EmissionSchedule schedule = new EmissionSchedule(rate, task, tasks, START);
            schedule.countDue(COURSE * SECOND);
            double own = 0;
            for (int quarter = 0; quarter < 4 * factors.length; quarter++) {
                long now = COURSE * SECOND + quarter * SECOND / 4;
                if (quarter == 0 || (quarter + task) % 9 == 0) {
                    schedule.follow(answer(course, now - SECOND), now - SECOND);
                }
                own += schedule.countDue(now + SECOND / 4);
                due[quarter + 1] += own;
                assertEquals(integral(factors, rate, (quarter + 1) / 4.0) / tasks, own, 1.001);
            }
        }
        for (int quarter = 1; quarter < due.length; quarter++) {
            assertEquals(integral(factors, rate, quarter / 4.0), due[quarter], 1.001, "after " + quarter / 4.0 + " s");
        }
    }

    /** Of such rates a tuple is due exactly when the rate changes, and no binary fraction says when that is. */
    @ParameterizedTest
    @CsvSource({"100, 1", "240, 4", "70, 7"})
    void aTupleThatIsDueAsTheRateChangesIsDueOnce(double rate, int tasks) {
        double[] factors = new Random(5).ints(2000, 1, 30).mapToDouble(tenths -> tenths / 10.0).toArray();
        List<RateChange> course = course(factors);
        long sum = 0;
        for (int task = 0; task < tasks; task++) {
            EmissionSchedule schedule = new EmissionSchedule(rate, task, tasks, START);
            schedule.countDue(COURSE * SECOND);
            schedule.follow(course, COURSE * SECOND);
            sum += schedule.countDue((COURSE + factors.length) * SECOND);
        }
        assertEquals(integral(factors, rate, factors.length), sum, 1.001);
    }

    @ParameterizedTest
    @CsvSource({"240, 4", "7.5, 3", "0.5, 2"})
    void aProcessThatBeginsLaterHasTheSameTuples(double rate, int tasks) {
        List<RateChange> course = course(factors(120));
        for (double died = 10; died < 60; died += 7.3) {
            long until = COURSE * SECOND + (long) (died * SECOND);
            EmissionSchedule before = new EmissionSchedule(rate, 1, tasks, START);
            before.follow(course, START);
            before.countDue(until);
            while (before.behind() > 4) {
                before.take();
            }
            List<RateChange> known = answer(course, until - before.behindNanos(until));
            EmissionSchedule after = new EmissionSchedule(rate, 1, tasks, new EmissionRecord(until, before.behind(), known));
            after.follow(answer(course, until + 15 * SECOND), until + 15 * SECOND);
            before.countDue(until + 20 * SECOND);
            after.countDue(until + 20 * SECOND);
            assertEquals(before.behind(), after.behind());
            for (long left = after.behind(); left > 0; left--) {
                assertEquals(before.take(), after.take());
            }
        }
    }

    @Test
    void aCourseThatTakesAnothersPlaceCountsFromItsBegin() {
        EmissionSchedule schedule = new EmissionSchedule(50, 0, 2, START);
        List<RateChange> first = course(2, 2, 2, 2, 2, 2);
        schedule.follow(first, START);
        long begin = COURSE * SECOND;
        long due = schedule.countDue(begin + 2 * SECOND + SECOND / 2) - schedule.countDue(begin + 1);
        List<RateChange> other = new ArrayList<>(first.subList(0, 4));
        other.add(new RateChange(begin + 3 * SECOND, 1, first.get(3).seconds() + 2));
        schedule.follow(other.subList(3, 5), begin + 2 * SECOND + SECOND / 2);
        due = schedule.countDue(begin + 6 * SECOND);
        assertEquals(50 * (0.5 * 2 + 3) / 2, due, 1);
    }

    /** The position of a source with few tuples is ahead in a change that is then taken back. */
    @Test
    void aTupleThatIsDueInAChangeThatIsTakenBackIsDueAsItIsNow() {
        EmissionSchedule schedule = new EmissionSchedule(0.5, 0, 1, START);
        List<RateChange> fast = course(0.5, 100, 100);
        long begin = COURSE * SECOND;
        schedule.follow(fast, START);
        schedule.countDue(begin + SECOND / 2);
        while (schedule.isDue(begin + SECOND / 2)) {
            schedule.take();
        }
        schedule.follow(fast.subList(0, 2), begin + SECOND / 2);
        assertEquals(0, schedule.countDue(begin + 3 * SECOND), 1);
        assertEquals(25, schedule.countDue(begin + 103 * SECOND), 1);
        long due = schedule.behind();
        for (; schedule.isDue(begin + 103 * SECOND - 1); due--) {
            schedule.take();
        }
        assertEquals(0, due);
    }

    @Test
    void aChangeThatIsHeardOfLateIsFollowedFromThenOn() {
        EmissionSchedule schedule = new EmissionSchedule(100, 0, 1, START);
        List<RateChange> course = course(3);
        long begin = COURSE * SECOND;
        long due = schedule.countDue(begin);
        schedule.follow(course, begin + 5 * SECOND);
        assertEquals(500 + 300, schedule.countDue(begin + 6 * SECOND), 2);
        schedule.follow(course, begin + 6 * SECOND);
        assertEquals(300, schedule.countDue(begin + 7 * SECOND), 1, "after " + due);
    }

    @Test
    void atARateOfZeroNothingIsDueAndWhatWasDueIsLate() {
        EmissionSchedule schedule = new EmissionSchedule(10, 0, 1, START);
        schedule.follow(course(0, 0, 0, 2), START);
        long begin = COURSE * SECOND;
        long before = schedule.countDue(begin);
        assertEquals(0, schedule.countDue(begin + 3 * SECOND));
        while (schedule.behind() > 0) {
            schedule.take();
        }
        assertFalse(schedule.isDue(begin + 3 * SECOND - 1));
        assertEquals(0, schedule.behindNanos(begin + 2 * SECOND));
        assertEquals(20, schedule.countDue(begin + 4 * SECOND), 1, "after " + before);
    }

    /** Where a tuple is due just as the rate becomes 0, whatever rounding makes of its number. */
    @Test
    void noTupleIsLeftInAStretchInWhichNothingIsDue() {
        for (int base = 0; base < 1000; base++) {
            List<RateChange> changes = new ArrayList<>();
            changes.add(new RateChange(START / SECOND * SECOND, 1, base));
            double seconds = base + COURSE - START / SECOND;
            double[] factors = {0.1, 0.6, 0, 0.5};
            for (int i = 0; i < factors.length; i++) {
                changes.add(new RateChange((COURSE + i) * SECOND, factors[i], seconds));
                seconds += factors[i];
            }
            EmissionSchedule schedule = new EmissionSchedule(100, 0, 1, START);
            schedule.follow(changes, START);
            long end = (COURSE + factors.length) * SECOND;
            schedule.countDue(end);
            while (schedule.isDue(end - 1)) {
                schedule.take();
            }
            assertEquals(0, schedule.behind(), "numbered from " + base);
        }
    }

    /** 48 h with a change each second. */
    @Test
    void aLongCourseCostsNoMemory() throws Exception {
        EmissionSchedule schedule = new EmissionSchedule(10, 0, 1, START);
        double seconds = (START / SECOND) % 1000 + 10;
        List<RateChange> ahead = new ArrayList<>();
        for (int second = 0; second < 172_800; second++) {
            RateChange change = new RateChange((COURSE + second) * SECOND, 1 + second % 2, seconds);
            seconds += change.factor();
            ahead.add(change);
            if (ahead.size() > 30) {
                ahead.remove(0);
                long now = ahead.get(0).fromNanos() + SECOND / 2;
                schedule.follow(ahead, now);
                schedule.countDue(now);
                schedule.skip();
            }
        }
        assertTrue(stretches(schedule) <= 32, "stretches: " + stretches(schedule));
    }

    @Test
    void gapsOfManyRatesAreJoined() {
        double[] factors = factors(200);
        EmissionRecord record = new EmissionRecord(COURSE * SECOND, 0, course(factors));
        List<Resumption.Gap> gaps = new EmissionSchedule(100, 0, 1, record).countDueByRate(COURSE * SECOND, (COURSE + 200) * SECOND);
        assertTrue(gaps.size() <= EmissionSchedule.MOST_GAPS && gaps.size() > EmissionSchedule.MOST_GAPS / 2, "gaps: " + gaps.size());
        assertEquals(integral(factors, 100, 200), gaps.stream().mapToLong(Resumption.Gap::due).sum(), 1);
        assertEquals(COURSE * SECOND, gaps.get(0).fromNanos());
        assertEquals((COURSE + 200) * SECOND, gaps.get(gaps.size() - 1).untilNanos());
        for (int i = 1; i < gaps.size(); i++) {
            assertEquals(gaps.get(i - 1).untilNanos(), gaps.get(i).fromNanos());
        }
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
