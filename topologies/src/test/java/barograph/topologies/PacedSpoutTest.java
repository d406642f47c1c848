package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.EmissionRecords.EmissionRecord;
import barograph.topologies.EmissionRecords.RateChange;
import barograph.topologies.PacedSpout.Patience;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class PacedSpoutTest {
    private static final long SECOND = 1_000_000_000L;
    private static final long CALLED = 1_763_712_345L * SECOND;

    private final List<Integer> asked = new ArrayList<>();
    private final Patience patience = new Patience(7, CALLED);

    private static EmissionRecords records(long behind) {
        return new EmissionRecords("star-1", Map.of(7, new EmissionRecord(CALLED - 20 * SECOND, behind, List.of(new RateChange(0, 1)))), Map.of());
    }

    private EmissionRecords asWorkerStarted() {
        EmissionRecords records = records(3);
        records.askBy(asked::add);
        records.renew(records(3), CALLED - 15 * SECOND);
        return records;
    }

    @Test
    void itWaitsTenSecondsForAServiceThatSaidNothing() {
        assertTrue(patience.isToWait(null, CALLED));
        assertTrue(patience.isToWait(null, CALLED + Patience.NANOS - 1));
        assertFalse(patience.isToWait(null, CALLED + Patience.NANOS));
        assertFalse(patience.isToWait(EmissionRecords.UNKNOWN, CALLED));
    }

    /** A line of the process before may have come since the worker started, and the rate may have changed. */
    @Test
    void itBeginsWithWhatIsOnRecordThen() {
        EmissionRecords records = asWorkerStarted();
        assertTrue(patience.isToWait(records, CALLED));
        assertTrue(patience.isToWait(records, CALLED + SECOND / 100));
        assertEquals(List.of(7), asked);
        records.renew(records(9), CALLED + SECOND / 200);
        assertFalse(patience.isToWait(records, CALLED + SECOND / 100));
        assertEquals(9, records.of(7, "spout_1").behind());
    }

    @Test
    void whereTheServiceHasGoneItBeginsWithWhatItSaidAndAsksNoMore() {
        EmissionRecords records = asWorkerStarted();
        for (long ms = 0; ms < 2000; ms++) {
            assertTrue(patience.isToWait(records, CALLED + ms * SECOND / 1000));
        }
        assertFalse(patience.isToWait(records, CALLED + Patience.ANEW_NANOS));
        assertEquals(List.of(7), asked);
    }

    @Test
    void anAnswerThatSaysNothingOrIsOfAnotherTopologyChangesNothing() {
        EmissionRecords records = asWorkerStarted();
        records.renew(EmissionRecords.UNKNOWN, CALLED);
        records.renew(new EmissionRecords("star-2", Map.of(), Map.of()), CALLED);
        assertEquals(3, records.of(7, "spout_1").behind());
        assertFalse(records.areSince(CALLED));
    }

    @Test
    void whereNobodyCanBeAskedItBegins() {
        assertFalse(patience.isToWait(records(3), CALLED));
    }
}
