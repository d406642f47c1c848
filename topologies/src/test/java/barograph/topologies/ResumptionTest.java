package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import barograph.topologies.EmissionRecords.EmissionRecord;
import barograph.topologies.EmissionRecords.RateChange;
import barograph.topologies.Resumption.Gap;
import barograph.topologies.Resumption.OnRestart;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** A source's process ends at DIED and another one is first asked for a tuple at BACK. */
class ResumptionTest {
    private static final long SECOND = 1_000_000_000L;
    private static final long START = 1_763_712_345L * SECOND + 123_456_789L;
    private static final long DIED = START + 60 * SECOND;
    private static final long BACK = DIED + 14 * SECOND;
    private static final int TASK = 7;
    private static final Resumption.Source SOURCE = new Resumption.Source(TASK, "spout_1", 100, 1, 4);
    private static final List<RateChange> ONE_RATE = List.of(new RateChange(START - 30 * SECOND, 1));

    private static EmissionRecords records(long behind, List<RateChange> rates) {
        return new EmissionRecords("star-1", Map.of(TASK, new EmissionRecord(DIED, behind, rates)), Map.of());
    }

    /** The tuples that a source emits until then if nothing holds it up. */
    private static List<Long> emitted(EmissionSchedule schedule, long until) {
        List<Long> due = new ArrayList<>();
        while (schedule.isDue(until)) {
            due.add(schedule.take());
        }
        return due;
    }

    @Test
    void whatFellDueMeanwhileIsEmittedLateAsIfNothingHadHappened() {
        EmissionSchedule undisturbed = new EmissionSchedule(100, 1, 4, START);
        List<Long> all = emitted(undisturbed, BACK + 10 * SECOND);
        EmissionSchedule first = new EmissionSchedule(100, 1, 4, START);
        List<Long> found = emitted(first, DIED - 3 * SECOND);
        long due = first.countDue(DIED);
        assertEquals(75, first.behind());
        Resumption resumption = Resumption.of(SOURCE, records(first.behind(), ONE_RATE), OnRestart.CATCH_UP, BACK);
        assertEquals(75 + 350, resumption.schedule().behind());
        assertEquals(17 * SECOND, resumption.schedule().behindNanos(BACK), SECOND / 25.0);
        found.addAll(emitted(resumption.schedule(), BACK + 10 * SECOND));
        assertEquals(all, found);
        due += resumption.gaps().get(0).due() + resumption.schedule().countDue(BACK + 10 * SECOND + 1);
        assertEquals(all.size(), due);
        assertEquals(List.of(new Gap(DIED, BACK, 350L)), resumption.gaps());
        assertEquals(0, resumption.missed());
        assertEquals(0, resumption.schedule().behind());
    }

    @Test
    void whatIsSkippedIsCountedAndNeverEmitted() {
        Resumption resumption = Resumption.of(SOURCE, records(75, ONE_RATE), OnRestart.SKIP, BACK);
        assertEquals(75 + 350, resumption.missed());
        assertEquals(List.of(new Gap(DIED, BACK, 350L)), resumption.gaps());
        assertEquals(0, resumption.schedule().behind());
        assertFalse(resumption.schedule().isDue(BACK - 1));
        assertEquals(25, emitted(resumption.schedule(), BACK + SECOND).size());
    }

    @ParameterizedTest
    @EnumSource(OnRestart.class)
    void theRateMayChangeInTheGap(OnRestart onRestart) {
        List<RateChange> rates = List.of(ONE_RATE.get(0), new RateChange(DIED + 4 * SECOND, 2), new RateChange(DIED + 10 * SECOND, 0.5));
        Resumption resumption = Resumption.of(SOURCE, records(0, rates), onRestart, BACK);
        assertEquals(List.of(DIED, DIED + 4 * SECOND, DIED + 10 * SECOND), resumption.gaps().stream().map(Gap::fromNanos).toList());
        assertEquals(List.of(DIED + 4 * SECOND, DIED + 10 * SECOND, BACK), resumption.gaps().stream().map(Gap::untilNanos).toList());
        List<Long> due = resumption.gaps().stream().map(Gap::due).toList();
        assertEquals(100, due.get(0), 1);
        assertEquals(300, due.get(1), 1);
        assertEquals(50, due.get(2), 1);
        long all = due.stream().mapToLong(Long::longValue).sum();
        assertEquals(onRestart == OnRestart.SKIP ? 0 : all, emitted(resumption.schedule(), BACK - 1).size());
        assertEquals(onRestart == OnRestart.SKIP ? all : 0, resumption.missed());
        assertEquals(12.5, emitted(resumption.schedule(), BACK + SECOND).size(), 1);
        resumption.schedule().follow(2, BACK + SECOND);
        assertEquals(50, emitted(resumption.schedule(), BACK + 2 * SECOND).size(), 1);
    }

    /** A backlog that is older than a change of the rate keeps its number, and its age. */
    @ParameterizedTest
    @CsvSource({"10, 0.4", "50, 2", "60, 2.2", "250, 8", "5000, 198"})
    void theBacklogReachesBackOverChangesOfTheRate(long behind, double age) {
        List<RateChange> rates = List.of(ONE_RATE.get(0), new RateChange(DIED - 4 * SECOND, 2), new RateChange(DIED - 2 * SECOND, 1));
        Resumption resumption = Resumption.of(SOURCE, records(behind, rates), OnRestart.CATCH_UP, DIED);
        assertEquals(List.of(), resumption.gaps());
        assertEquals(behind, resumption.schedule().behind());
        assertEquals(age * SECOND, resumption.schedule().behindNanos(DIED), 0.1 * SECOND);
        List<Long> due = emitted(resumption.schedule(), DIED - 1);
        assertEquals(behind, due.size());
        assertEquals(due.stream().sorted().distinct().toList(), due);
    }

    @Test
    void aTaskThatIsOnNoRecordBegins() {
        Resumption resumption = Resumption.of(SOURCE, new EmissionRecords("star-1", Map.of(), Map.of()), OnRestart.CATCH_UP, BACK);
        assertEquals(List.of(), resumption.gaps());
        assertEquals(0, resumption.missed());
        assertEquals(25, resumption.schedule().countDue(BACK + SECOND), 1);
    }

    @Test
    void whereNobodyKnowsItBeginsAndSaysSo() {
        EmissionRecords ofAnotherClock = new EmissionRecords("star-1", Map.of(TASK, new EmissionRecord(BACK + 3600 * SECOND, 0, ONE_RATE)), Map.of());
        for (EmissionRecords records : List.of(EmissionRecords.UNKNOWN, ofAnotherClock)) {
            Resumption resumption = Resumption.of(SOURCE, records, OnRestart.SKIP, BACK);
            assertEquals(List.of(new Gap(null, BACK, null)), resumption.gaps());
            assertNull(resumption.missed());
            assertEquals(25, resumption.schedule().countDue(BACK + SECOND), 1);
        }
    }

    /** Clocks of two machines differ by some ms. */
    @Test
    void aRecordFromAMomentAheadLeavesNoGap() {
        Resumption resumption = Resumption.of(SOURCE, records(0, ONE_RATE), OnRestart.CATCH_UP, DIED - SECOND / 20);
        assertEquals(List.of(), resumption.gaps());
        assertEquals(0, resumption.schedule().countDue(DIED));
        assertEquals(25, resumption.schedule().countDue(DIED + SECOND), 1);
    }

    @Test
    void aWordThatIsNoneIsRefused() {
        String message = assertThrows(IllegalArgumentException.class, () -> OnRestart.of("forget")).getMessage();
        assertEquals("on_restart is forget; it must be catch_up or skip", message);
        assertEquals(OnRestart.SKIP, OnRestart.of("skip"));
    }
}
