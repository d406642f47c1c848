package barograph.topologies;

import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * What every tuple of ours carries: a log line.
 *
 * <p>{@code id}: which machine wrote it. {@code count}: a running number, at first the source task's own, after an aggregate that of
 * its id. {@code sourceMachine}: the machine of the source's task, by whose clock {@code dueMs} is: the intended emission time in
 * epoch ms. The two stay last, where the measuring hook looks for them.
 */
public record Line(String text, int id, int count, String sourceMachine, double dueMs) {
    public static final String SOURCE_MACHINE = "source_machine";
    public static final String DUE_MS = "due_ms";
    static final Fields FIELDS = new Fields("text", "id", "count", SOURCE_MACHINE, DUE_MS);

    static Line of(Tuple tuple) {
        return new Line(tuple.getString(0), tuple.getInteger(1), tuple.getInteger(2), tuple.getString(3), tuple.getDouble(4));
    }

    Values values() {
        return new Values(text, id, count, sourceMachine, dueMs);
    }

    Line withText(String other) {
        return new Line(other, id, count, sourceMachine, dueMs);
    }

    /** Appends the count to the text: eight hexadecimal characters. */
    Line withCount(int other) {
        return new Line(text + String.format("%08x", other), id, other, sourceMachine, dueMs);
    }
}
