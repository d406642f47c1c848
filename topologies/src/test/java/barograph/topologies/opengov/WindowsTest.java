package barograph.topologies.opengov;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.opengov.AwardJoinBolt.Matches;
import barograph.topologies.opengov.PriceRangeBolt.Window;
import org.junit.jupiter.api.Test;

class WindowsTest {
    @Test
    void aRangeIsOfTheLastDays() {
        Window window = new Window(3);
        window.add(10, 5);
        window.add(10, 7);
        window.add(11, 6);
        assertEquals(5, window.lowest(11));
        assertEquals(7, window.highest(11));
        assertEquals(5, window.lowest(12));
        assertEquals(6, window.lowest(13), "the tenth day has left");
        assertEquals(6, window.highest(13));
        assertEquals(Double.POSITIVE_INFINITY, window.lowest(14));
    }

    @Test
    void aDayThatIsOverChangesNothing() {
        Window window = new Window(3);
        window.add(13, 6);
        window.add(10, 1);
        assertEquals(6, window.lowest(13));
    }

    @Test
    void aRangeKnowsDaysOfBeforeTheEpoch() {
        Window window = new Window(3);
        window.add(-1, 6);
        window.add(0, 2);
        assertEquals(2, window.lowest(0));
        assertEquals(6, window.highest(1));
        assertEquals(2, window.highest(2));
    }

    @Test
    void aCompanyIsEmittedOnceADayWhereBothLieInTheWindow() {
        Matches matches = new Matches(20);
        matches.surge(100, 2.5);
        assertFalse(matches.isToEmit(100), "no contract");
        matches.contract(119, 1e6);
        assertTrue(matches.isToEmit(119));
        matches.contract(119, 1e5);
        assertFalse(matches.isToEmit(119), "once a day");
        matches.contract(120, 1e5);
        assertFalse(matches.isToEmit(120), "its surge has left the window");
        matches.surge(121, 2.1);
        assertTrue(matches.isToEmit(121));
    }

    @Test
    void aWindowHasADay() {
        assertThrows(IllegalArgumentException.class, () -> new PriceRangeBolt(0));
        assertThrows(IllegalArgumentException.class, () -> new AwardJoinBolt(0));
    }
}
