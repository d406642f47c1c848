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
    public static final EmissionRecords UNKNOWN = new EmissionRecords(null, null);

    private final String topology;
    private volatile Answer answer;
    private volatile IntConsumer asking;

    /** What was due until then (epoch) is on record; so many of it were not emitted. The rates reach as far back as these. */
    public record EmissionRecord(long untilNanos, long behind, List<RateChange> rates) {
    }

    /** From then on (epoch) the rate was the submitted one times the factor; before the first change of a list as by that one. */
    public record RateChange(long fromNanos, double factor) {
    }

    private record Answer(Map<Integer, EmissionRecord> byTask, long askedNanos) {
    }

    /** Of the topology with that id. */
    public EmissionRecords(String topology, Map<Integer, EmissionRecord> byTask) {
        this.topology = topology;
        this.answer = new Answer(byTask, Long.MIN_VALUE);
    }

    public String topology() {
        return topology;
    }

    public Map<Integer, EmissionRecord> byTask() {
        return answer.byTask;
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
            answer = new Answer(newer.byTask(), askedNanos);
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
