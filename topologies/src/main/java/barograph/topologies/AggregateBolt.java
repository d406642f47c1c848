package barograph.topologies;

import java.util.HashMap;
import java.util.Map;

/** Counts the lines of each id that this task has seen, and appends the count to the text: eight hexadecimal characters. */
public final class AggregateBolt extends CostedBolt {
    private transient Map<Integer, Integer> seen;

    public AggregateBolt(String costModel, double msPerCharacter) {
        super(costModel, msPerCharacter);
    }

    @Override
    void begin(int task) {
        seen = new HashMap<>();
    }

    @Override
    Line work(Line line) {
        return line.withCount(seen.merge(line.id(), 1, Integer::sum));
    }
}
