package barograph.topologies;

import barograph.topologies.EmissionRecords.EmissionRecord;
import barograph.topologies.EmissionRecords.RateChange;
import barograph.topologies.Resumption.Gap;
import java.util.ArrayList;
import java.util.List;

/**
 * When a task of a source must emit: an open loop that does not care whether the topology keeps up.
 *
 * <p>While the rate stays, due times are the points of one {@link EmissionGrid}. When it changes they go on, from then, on the
 * grid of the new rate: what was due before stays due, so nothing is skipped and nothing falls due twice. Changes may be known
 * before they come; where the service says how they are numbered, the tuples due by any time are the integral of the rate. Any
 * thread may ask.
 */
public final class EmissionSchedule {
    /** A rate that changes each second, and a process that was gone for an hour: a line is no place for as many rows. */
    static final int MOST_GAPS = 60;

    /** Points {@code from} (included) to {@code until} (excluded) of a grid; what nobody can ask about any more is unreachable. */
    private static final class Stretch {
        private static final long OPEN = Long.MAX_VALUE;
        final EmissionGrid grid;
        final RateChange change;
        final long beginNanos;
        final long from;
        long until = OPEN;
        Stretch next;

        Stretch(EmissionGrid grid, RateChange change, long beginNanos, long from) {
            this.grid = grid;
            this.change = change;
            this.beginNanos = beginNanos;
            this.from = from;
        }

        Stretch endAt(long until, Stretch next) {
            this.until = until;
            this.next = next;
            return next;
        }
    }

    /** The oldest point that was not passed yet. */
    private static final class Position {
        Stretch stretch;
        long point;

        Position(Stretch stretch, long point) {
            this.stretch = stretch;
            this.point = point;
        }

        long dueNanos() {
            leaveWhatEnds();
            return stretch.grid.dueNanos(point);
        }

        /** Passes the points of this stretch before that time; returns how many. */
        long passInStretch(long nowNanos) {
            long before = Math.min(stretch.until, Math.max(point, stretch.grid.pointsBefore(nowNanos)));
            long passed = before - point;
            point = before;
            return passed;
        }

        long pass(long nowNanos) {
            long passed = passInStretch(nowNanos);
            while (leaveWhatEnds()) {
                passed += passInStretch(nowNanos);
            }
            return passed;
        }

        /** What comes after that stretch is planned anew: what was passed of it stays passed. */
        void comeBackTo(Stretch kept) {
            long passed = 0;
            for (Stretch each = kept.next; each != null; each = each.next) {
                if (each == stretch) {
                    point = kept.until + passed + point - each.from;
                    stretch = kept;
                    return;
                }
                passed += each.until - each.from;
            }
        }

        /** True if it left a stretch whose points are all passed. */
        boolean leaveWhatEnds() {
            Stretch before = stretch;
            while (point >= stretch.until) {
                stretch = stretch.next;
                point = stretch.from;
            }
            return stretch != before;
        }
    }

    private final double submittedRate;
    private final int taskIndex;
    private final int taskCount;
    private final Position taken;
    private final Position counted;
    private Stretch last;
    /** The one in force when the rates were last heard of; those after it were ahead then. */
    private Stretch current;
    private double factor = 1;
    /** Points that are counted and not taken; -1 while the source is a moment ahead of whoever counts. */
    private long behind;

    /** Rate in tuples per second of the whole component; the first due time is not before {@code startNanos} (epoch). */
    public EmissionSchedule(double componentRate, int taskIndex, int taskCount, long startNanos) {
        if (!(componentRate > 0) || Double.isInfinite(componentRate)) {
            throw new IllegalArgumentException("rate_per_s is " + componentRate + "; it must be a finite number above 0");
        }
        this.submittedRate = componentRate;
        this.taskIndex = taskIndex;
        this.taskCount = taskCount;
        this.last = stretchFrom(startNanos);
        this.current = last;
        this.taken = new Position(last, last.from);
        this.counted = new Position(last, last.from);
    }

    /** Goes on where the record ends: what is due until then is counted, and the newest {@code behind} of it not taken. */
    EmissionSchedule(double componentRate, int taskIndex, int taskCount, EmissionRecord record) {
        this(componentRate, taskIndex, taskCount, record.untilNanos());
        List<RateChange> rates = record.rates();
        int inForce = rates.size() - 1;
        while (inForce > 0 && rates.get(inForce).fromNanos() > record.untilNanos()) {
            inForce--;
        }
        Position oldest = oldestBehind(record, inForce);
        taken.stretch = oldest.stretch;
        taken.point = oldest.point;
        counted.stretch = last;
        counted.point = last.grid.pointsBefore(record.untilNanos());
        behind = record.behind();
        this.current = last;
        for (RateChange change : rates.subList(inForce + 1, rates.size())) {
            append(change, change.fromNanos());
        }
    }

    /** Makes the stretches up to the one in which the record ends, which is then the last; the first has the oldest point. */
    private Position oldestBehind(EmissionRecord record, int inForce) {
        long end = record.untilNanos();
        long left = record.behind();
        Stretch later = null;
        for (int i = inForce; ; i--) {
            RateChange rate = record.rates().get(i);
            // The first rate held as long as the record reaches back; one of 0 would have made nothing due.
            double reaching = submittedRate * (rate.factor() > 0 ? rate.factor() : 1);
            long begin = i > 0 ? rate.fromNanos() : end - (long) ((left + 1) * taskCount * 1e9 / reaching);
            EmissionGrid grid = rate.grid(submittedRate, taskIndex, taskCount, begin);
            Stretch stretch = new Stretch(grid, rate, begin, grid.pointsBefore(begin));
            long points = later != null && later.grid.continues(grid, end) ? later.from : grid.pointsBefore(end);
            if (later == null) {
                last = stretch;
            } else {
                stretch.endAt(points, later);
            }
            if (i == 0 || points - stretch.from >= left) {
                factor = record.rates().get(inForce).factor();
                return new Position(stretch, points - left);
            }
            left -= points - stretch.from;
            end = begin;
            later = stretch;
        }
    }

    /** From {@code nowNanos} on the rate is the submitted one times {@code newFactor}, which is finite and above 0. */
    public synchronized void follow(double newFactor, long nowNanos) {
        if (newFactor != factor) {
            append(new RateChange(nowNanos, newFactor), nowNanos);
        }
    }

    /**
     * Follows these changes, oldest first: the one in force now, and those that are ahead. One that it hears of too late it follows
     * from now on.
     */
    public synchronized void follow(List<RateChange> changes, long nowNanos) {
        while (current.next != null && current.next.beginNanos <= nowNanos) {
            current = current.next;
        }
        int ahead = 0;
        while (ahead < changes.size() && changes.get(ahead).fromNanos() <= nowNanos) {
            ahead++;
        }
        if (ahead > 0 && !changes.get(ahead - 1).equals(current.change)) {
            forgetAfter(current);
            append(changes.get(ahead - 1), nowNanos);
            current = last;
        }
        Stretch kept = current;
        while (kept.next != null && ahead < changes.size() && kept.next.change.equals(changes.get(ahead))) {
            kept = kept.next;
            ahead++;
        }
        forgetAfter(kept);
        for (RateChange change : changes.subList(ahead, changes.size())) {
            append(change, change.fromNanos());
        }
    }

    private void forgetAfter(Stretch kept) {
        if (kept.next != null) {
            taken.comeBackTo(kept);
            counted.comeBackTo(kept);
            kept.endAt(Stretch.OPEN, null);
            last = kept;
            factor = kept.change == null ? 1 : kept.change.factor();
        }
    }

    /** The last stretch ends then, and one of this rate begins. */
    private void append(RateChange change, long fromNanos) {
        factor = change.factor();
        long until = last.grid.isIdle() ? last.from : Math.max(last.from, last.grid.pointsBefore(fromNanos));
        for (Position passed : List.of(taken, counted)) {
            if (passed.stretch == last) {
                until = Math.max(until, passed.point); // with a clock that was read a moment later
            }
        }
        EmissionGrid grid = change.grid(submittedRate, taskIndex, taskCount, fromNanos);
        if (grid.continues(last.grid, fromNanos)) {
            last = last.endAt(until, new Stretch(grid, change, fromNanos, until));
            return;
        }
        long begin = until == last.from ? fromNanos : Math.max(fromNanos, last.grid.dueNanos(until - 1) + 1);
        last = last.endAt(until, new Stretch(grid, change, begin, grid.pointsBefore(begin)));
    }

    /** Whether a tuple is due that was not yet taken. */
    public synchronized boolean isDue(long nowNanos) {
        return taken.dueNanos() <= nowNanos;
    }

    /** Takes the oldest tuple that was not yet taken and returns its due time in epoch nanoseconds. */
    public synchronized long take() {
        long due = taken.dueNanos();
        taken.point++;
        behind--;
        return due;
    }

    /** How many tuples fell due before this time, taken or not, since this was last asked, or since the start. */
    public synchronized long countDue(long nowNanos) {
        long due = counted.pass(nowNanos);
        behind += due;
        return due;
    }

    /**
     * The same, for each rate that was in force since {@code fromNanos}, which is when it was last asked; of very many rates some
     * that followed each other are one.
     */
    synchronized List<Gap> countDueByRate(long fromNanos, long nowNanos) {
        List<Gap> gaps = new ArrayList<>();
        for (long begin = fromNanos; begin < nowNanos; ) {
            Stretch stretch = counted.stretch;
            long end = stretch.next == null ? nowNanos : Math.min(nowNanos, stretch.next.beginNanos);
            long due = counted.passInStretch(nowNanos);
            behind += due;
            if (end > begin) {
                gaps.add(new Gap(begin, end, due));
            }
            begin = end;
            if (stretch.next != null && end == stretch.next.beginNanos) {
                counted.leaveWhatEnds();
            }
        }
        return joined(gaps, (gaps.size() + MOST_GAPS - 1) / MOST_GAPS);
    }

    private static List<Gap> joined(List<Gap> gaps, int number) {
        if (number <= 1) {
            return gaps;
        }
        List<Gap> few = new ArrayList<>();
        for (int i = 0; i < gaps.size(); i += number) {
            List<Gap> part = gaps.subList(i, Math.min(gaps.size(), i + number));
            few.add(new Gap(part.get(0).fromNanos(), part.get(part.size() - 1).untilNanos(), part.stream().mapToLong(Gap::due).sum()));
        }
        return few;
    }

    /** Gives up what is counted and not taken: it is never emitted. Returns how many tuples that are. */
    synchronized long skip() {
        long missed = behind();
        taken.stretch = counted.stretch;
        taken.point = counted.point;
        behind = 0;
        return missed;
    }

    /** Tuples that were due when it was last counted, and are not taken. */
    public synchronized long behind() {
        return Math.max(0, behind);
    }

    /** Age in nanoseconds of the oldest tuple that is due and was not taken; 0 if there is none. */
    public synchronized long behindNanos(long nowNanos) {
        return Math.max(0, nowNanos - taken.dueNanos());
    }

    private Stretch stretchFrom(long startNanos) {
        EmissionGrid grid = EmissionGrid.at(submittedRate, taskIndex, taskCount, startNanos);
        return new Stretch(grid, null, startNanos, grid.pointsBefore(startNanos));
    }
}
