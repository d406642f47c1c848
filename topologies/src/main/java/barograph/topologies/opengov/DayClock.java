package barograph.topologies.opengov;

import java.io.Serializable;

/** Days of the records, counted from the epoch, by when a tuple is due: so all sources have the same day, also after a restart. */
final class DayClock implements Serializable {
    private static final double MS_PER_SECOND = 1000;

    private final double dayMs;

    DayClock(double dayS) {
        if (!(dayS > 0) || Double.isInfinite(dayS)) {
            throw new IllegalArgumentException("day_s is " + dayS + "; it must be a finite number above 0");
        }
        this.dayMs = dayS * MS_PER_SECOND;
    }

    /** The parameter window_days, the length of a window; refused below 1. */
    static int window(int days) {
        if (days < 1) {
            throw new IllegalArgumentException("window_days is " + days + "; it must be 1 or more");
        }
        return days;
    }

    long at(double dueMs) {
        return (long) Math.floor(dueMs / dayMs);
    }
}
