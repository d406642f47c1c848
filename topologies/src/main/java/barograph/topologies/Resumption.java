package barograph.topologies;

import barograph.topologies.EmissionRecords.EmissionRecord;
import java.util.List;
import java.util.Locale;

/**
 * How a source's task goes on with its schedule, in another process than before; or how it begins it.
 *
 * @param gaps what fell due while no process of the task counted
 * @param missed tuples that were due and are never emitted; null where nobody knows what was due
 */
public record Resumption(EmissionSchedule schedule, List<Gap> gaps, Long missed) {
    /** A record from further ahead is of another clock: the source would be silent until then. */
    private static final long AHEAD_NANOS = 5_000_000_000L;

    /** Tuples that fell due from (included) until (excluded), in epoch nanoseconds; null where that is not known. */
    public record Gap(Long fromNanos, long untilNanos, Long due) {
    }

    /** What becomes of tuples that fell due and were not emitted before the process ended. */
    public enum OnRestart {
        /** They are emitted, late. */
        CATCH_UP,
        /** They are counted as missed. */
        SKIP;

        /** Throws IllegalArgumentException for a word that is none. */
        public static OnRestart of(String word) {
            for (OnRestart each : values()) {
                if (each.name().toLowerCase(Locale.ROOT).equals(word)) {
                    return each;
                }
            }
            throw new IllegalArgumentException("on_restart is " + word + "; it must be catch_up or skip");
        }
    }

    /** Which task of which component, and how much it is to emit: the component's rate in tuples per second, and its place among its tasks. */
    public record Source(int task, String component, double componentRate, int taskIndex, int taskCount) {
        EmissionSchedule from(long startNanos) {
            return new EmissionSchedule(componentRate, taskIndex, taskCount, startNanos);
        }

        EmissionSchedule after(EmissionRecord record) {
            return new EmissionSchedule(componentRate, taskIndex, taskCount, record);
        }
    }

    /** A task that is on no record begins its topology's schedule; of one that nobody knows about nothing is made up. */
    public static Resumption of(Source source, EmissionRecords records, OnRestart onRestart, long nowNanos) {
        EmissionRecord record = records.areKnown() ? records.of(source.task, source.component) : null;
        if (!records.areKnown() || record != null && record.untilNanos() > nowNanos + AHEAD_NANOS) {
            return new Resumption(source.from(nowNanos), List.of(new Gap(null, nowNanos, null)), null);
        }
        if (record == null) {
            return new Resumption(source.from(nowNanos), List.of(), 0L);
        }
        EmissionSchedule schedule = source.after(record);
        List<Gap> gaps = schedule.countDueByRate(record.untilNanos(), nowNanos);
        return new Resumption(schedule, gaps, onRestart == OnRestart.SKIP ? schedule.skip() : 0L);
    }
}
