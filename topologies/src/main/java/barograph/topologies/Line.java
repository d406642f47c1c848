package barograph.topologies;

import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * What every tuple of ours carries: a log line.
 *
 * <p>{@code id}: which machine wrote it. {@code count}: a running number, at first the source task's own, after an aggregate that of
 * its id. {@code dueMs}: the intended emission time in epoch ms; it stays last, where the measuring hook looks for it.
 */
public record Line(String text, int id, int count, double dueMs) {
    public static final String DUE_MS = "due_ms";
    static final Fields FIELDS = new Fields("text", "id", "count", DUE_MS);

    static Line of(Tuple tuple) {
        return new Line(tuple.getString(0), tuple.getInteger(1), tuple.getInteger(2), tuple.getDouble(3));
    }

    Values values() {
        return new Values(text, id, count, dueMs);
    }

    Line withText(String other) {
        return new Line(other, id, count, dueMs);
    }
}
