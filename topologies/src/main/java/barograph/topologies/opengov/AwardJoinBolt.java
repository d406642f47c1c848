package barograph.topologies.opengov;

import barograph.topologies.Line;
import barograph.topologies.TupleBolt;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Joins companies whose price has more than doubled with contracts that they were awarded, where both lie within a window: a company
 * is emitted at most once a day, with the newest of both.
 */
public final class AwardJoinBolt extends TupleBolt {
    private static final String RATIO = "ratio";

    private final int windowDays;
    private transient Map<String, Matches> matches;

    public AwardJoinBolt(int windowDays) {
        this.windowDays = DayClock.window(windowDays);
    }

    /** What the window knows of a company; a day before all days stands for none. */
    static final class Matches {
        private static final long NEVER = Long.MIN_VALUE / 2;
        private final int windowDays;
        private long surgeDay = NEVER;
        private long contractDay = NEVER;
        private long emittedDay = NEVER;
        private double ratio;
        private double amount;

        Matches(int windowDays) {
            this.windowDays = windowDays;
        }

        void surge(long day, double newRatio) {
            surgeDay = Math.max(surgeDay, day);
            ratio = newRatio;
        }

        void contract(long day, double newAmount) {
            contractDay = Math.max(contractDay, day);
            amount = newAmount;
        }

        /** True once a day at most. */
        boolean isToEmit(long day) {
            boolean isMatch = surgeDay != NEVER && contractDay != NEVER && Math.abs(surgeDay - contractDay) < windowDays;
            boolean isFirst = day > emittedDay;
            emittedDay = isMatch && isFirst ? day : emittedDay;
            return isMatch && isFirst;
        }
    }

    @Override
    protected void begin(TopologyContext context) {
        matches = new HashMap<>();
    }

    @Override
    protected void handle(Tuple tuple) {
        String company = tuple.getStringByField("company");
        long day = tuple.getLongByField("day");
        Matches found = matches.computeIfAbsent(company, unknown -> new Matches(windowDays));
        if (tuple.contains(RATIO)) {
            found.surge(day, tuple.getDoubleByField(RATIO));
        } else {
            found.contract(day, tuple.getDoubleByField("amount"));
        }
        if (found.isToEmit(day)) {
            emit(tuple, new Values(company, day, found.ratio, found.amount,
                tuple.getValueByField(Line.SOURCE_MACHINE), tuple.getValueByField(Line.DUE_MS)));
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("company", "day", "ratio", "amount", Line.SOURCE_MACHINE, Line.DUE_MS));
    }
}
