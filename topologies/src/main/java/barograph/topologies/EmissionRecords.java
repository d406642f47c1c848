package barograph.topologies;

import java.util.List;
import java.util.Map;

/**
 * What the policy service has on record of the sources of a topology as a worker begins, by task. Null where it said nothing.
 *
 * @param topology the id of the topology that the records are of
 */
public record EmissionRecords(String topology, Map<Integer, EmissionRecord> byTask) {
    /** Nobody said whether there are any. */
    public static final EmissionRecords UNKNOWN = new EmissionRecords(null, null);

    /** What was due until then (epoch) is on record; so many of it were not emitted. The rates reach as far back as these. */
    public record EmissionRecord(long untilNanos, long behind, List<RateChange> rates) {
    }

    /** From then on (epoch) the rate was the submitted one times the factor; before the first change of a list as by that one. */
    public record RateChange(long fromNanos, double factor) {
    }

    public boolean areKnown() {
        return byTask != null;
    }
}
