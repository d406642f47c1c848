package barograph.topologies;

import java.util.ArrayList;
import java.util.List;

/**
 * When a task of a source must emit: an open loop that does not care whether the topology keeps up.
 *
 * <p>While the rate stays, due times are the points of one {@link EmissionGrid}. When it changes they go on, from then, on the
 * grid of the new rate: what was due before stays due, so nothing is skipped and nothing falls due twice. Any thread may ask.
 */
public final class EmissionSchedule {
    /** Points {@code from} (included) to {@code until} (excluded) of a grid. */
    private record Stretch(EmissionGrid grid, long from, long until) {
        private static final long OPEN = Long.MAX_VALUE;

        long pointsBefore(long nowNanos) {
            return Math.min(Math.max(grid.pointsBefore(nowNanos), from), until) - from;
        }
    }

    private final double submittedRate;
    private final int taskIndex;
    private final int taskCount;
    private final List<Stretch> stretches = new ArrayList<>();
    private double factor = 1;
    private int current;
    private long next;

    /** Rate in tuples per second of the whole component; the first due time is not before {@code startNanos} (epoch). */
    public EmissionSchedule(double componentRate, int taskIndex, int taskCount, long startNanos) {
        if (!(componentRate > 0) || Double.isInfinite(componentRate)) {
            throw new IllegalArgumentException("rate_per_s is " + componentRate + "; it must be a finite number above 0");
        }
        this.submittedRate = componentRate;
        this.taskIndex = taskIndex;
        this.taskCount = taskCount;
        begin(startNanos);
        this.next = stretches.get(0).from;
    }

    /** From {@code nowNanos} on the rate is the submitted one times {@code newFactor}, which is finite and above 0. */
    public synchronized void follow(double newFactor, long nowNanos) {
        if (newFactor == factor) {
            return;
        }
        factor = newFactor;
        Stretch last = stretches.remove(stretches.size() - 1);
        long until = Math.max(last.from, last.grid.pointsBefore(nowNanos));
        if (current == stretches.size()) {
            until = Math.max(until, next); // taken by a source whose clock was read a moment later
        }
        stretches.add(new Stretch(last.grid, last.from, until));
        begin(until == last.from ? nowNanos : Math.max(nowNanos, last.grid.dueNanos(until - 1) + 1));
        skipWhatIsTaken();
    }

    /** Whether a tuple is due that was not yet taken. */
    public synchronized boolean isDue(long nowNanos) {
        return nextDueNanos() <= nowNanos;
    }

    /** Takes the oldest tuple that was not yet taken and returns its due time in epoch nanoseconds. */
    public synchronized long take() {
        long due = nextDueNanos();
        next++;
        skipWhatIsTaken();
        return due;
    }

    /** How many tuples fell due since the start, taken or not, before this time. */
    public synchronized long dueBefore(long nowNanos) {
        return stretches.stream().mapToLong(stretch -> stretch.pointsBefore(nowNanos)).sum();
    }

    /** Age in nanoseconds of the oldest tuple that is due and was not taken; 0 if there is none. */
    public synchronized long behindNanos(long nowNanos) {
        return Math.max(0, nowNanos - nextDueNanos());
    }

    private void begin(long startNanos) {
        EmissionGrid grid = EmissionGrid.at(submittedRate * factor, taskIndex, taskCount, startNanos);
        stretches.add(new Stretch(grid, grid.pointsBefore(startNanos), Stretch.OPEN));
    }

    private long nextDueNanos() {
        return stretches.get(current).grid.dueNanos(next);
    }

    private void skipWhatIsTaken() {
        while (next >= stretches.get(current).until) {
            current++;
            next = stretches.get(current).from;
        }
    }
}
