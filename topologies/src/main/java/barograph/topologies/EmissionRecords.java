package barograph.topologies;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntConsumer;

/**
 * What the policy service has on record of the sources of a topology, by task; null where it said nothing.
 *
 * <p>A worker is told as it starts, and its sources begin many seconds later: each asks for it anew then, and the same records have
 * the newer answer as soon as it is there. Any thread may ask.
 */
public final class EmissionRecords {
    /** Nobody said whether there are any. */
    public static final EmissionRecords UNKNOWN = new EmissionRecords(null, null, Map.of());

    private final String topology;
    private volatile Answer answer;
    private volatile IntConsumer asking;

    /** What was due until then (epoch) is on record; so many of it were not emitted. The rates reach as far back as these. */
    public record EmissionRecord(long untilNanos, long behind, List<RateChange> rates) {
    }

    /**
     * From then on (epoch) the rate is the submitted one times the factor; before the first change of a list as by that one.
     *
     * @param seconds for how long the submitted rate would have taken to what is due until then, so that every task of a component
     *     numbers its tuples alike, whenever it hears of the change; NaN where the service does not say
     */
    public record RateChange(long fromNanos, double factor, double seconds) {
        public RateChange(long fromNanos, double factor) {
            this(fromNanos, factor, Double.NaN);
        }

        EmissionGrid grid(double submittedRate, int taskIndex, int taskCount, long aboutNanos) {
            return Double.isNaN(seconds) ? EmissionGrid.at(submittedRate * factor, taskIndex, taskCount, aboutNanos)
                : new EmissionGrid(submittedRate * factor, taskIndex, taskCount, fromNanos, submittedRate * seconds);
        }
    }

    private record Answer(Map<Integer, EmissionRecord> byTask, Map<String, List<RateChange>> bySource, long askedNanos) {
    }

    /** Of the topology with that id; {@code bySource} has the rates of components that have a course of their own. */
    public EmissionRecords(String topology, Map<Integer, EmissionRecord> byTask, Map<String, List<RateChange>> bySource) {
        this.topology = topology;
        this.answer = new Answer(byTask, bySource, Long.MIN_VALUE);
    }

    public String topology() {
        return topology;
    }

    /** Of a task of that component; null where it is on no record. */
    public EmissionRecord of(int task, String component) {
        Answer newest = answer;
        EmissionRecord record = newest.byTask.get(task);
        List<RateChange> own = newest.bySource.get(component);
        return record == null || own == null ? record : new EmissionRecord(record.untilNanos, record.behind, own);
    }

    public boolean areKnown() {
        return answer.byTask != null;
    }

    /** From now on they can be asked for anew, by the task that is about to begin. */
    public void askBy(IntConsumer newAsking) {
        asking = newAsking;
    }

    /** Those of an answer to what was asked at that time (epoch); one that says nothing, or of another topology, changes nothing. */
    public void renew(EmissionRecords newer, long askedNanos) {
        if (areKnown() && newer.areKnown() && Objects.equals(topology, newer.topology)) {
            answer = new Answer(newer.answer.byTask, newer.answer.bySource, askedNanos);
        }
    }

    /** Asks for newer ones, as this task begins; never waits. False where nobody may be asked. */
    public boolean ask(int task) {
        IntConsumer by = asking;
        if (by != null) {
            by.accept(task);
        }
        return by != null;
    }

    /** Whether they are the answer to what was asked at this time (epoch) or later. */
    public boolean areSince(long nanos) {
        return answer.askedNanos >= nanos;
    }
}
