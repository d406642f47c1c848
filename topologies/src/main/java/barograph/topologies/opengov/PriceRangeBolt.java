package barograph.topologies.opengov;

import barograph.topologies.Line;
import barograph.topologies.TupleBolt;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Adds to each quote the lowest and the highest price of its symbol over the last days, that one's included. */
public final class PriceRangeBolt extends TupleBolt {
    private final int windowDays;
    private transient Map<String, Window> windows;

    public PriceRangeBolt(int windowDays) {
        this.windowDays = DayClock.window(windowDays);
    }

    /** Lowest and highest price of each of the last days; a day without quotes has none. */
    static final class Window {
        private final long[] days;
        private final double[] lowest;
        private final double[] highest;

        Window(int length) {
            days = new long[length];
            lowest = new double[length];
            highest = new double[length];
            Arrays.fill(days, Long.MIN_VALUE);
        }

        void add(long day, double price) {
            int place = (int) Math.floorMod(day, (long) days.length);
            if (day < days[place]) {
                return; // of a day that is over
            }
            boolean isFirst = day > days[place];
            days[place] = day;
            lowest[place] = isFirst ? price : Math.min(lowest[place], price);
            highest[place] = isFirst ? price : Math.max(highest[place], price);
        }

        double lowest(long today) {
            double found = Double.POSITIVE_INFINITY;
            for (int place = 0; place < days.length; place++) {
                found = isIn(place, today) ? Math.min(found, lowest[place]) : found;
            }
            return found;
        }

        double highest(long today) {
            double found = Double.NEGATIVE_INFINITY;
            for (int place = 0; place < days.length; place++) {
                found = isIn(place, today) ? Math.max(found, highest[place]) : found;
            }
            return found;
        }

        private boolean isIn(int place, long today) {
            return days[place] <= today && days[place] > today - days.length;
        }
    }

    @Override
    protected void begin(TopologyContext context) {
        windows = new HashMap<>();
    }

    @Override
    protected void handle(Tuple tuple) {
        String symbol = tuple.getString(0);
        long day = tuple.getLong(2);
        double price = tuple.getDouble(3);
        Window window = windows.computeIfAbsent(symbol, unknown -> new Window(windowDays));
        window.add(day, price);
        double lowest = Math.min(price, window.lowest(day));
        double highest = Math.max(price, window.highest(day));
        emit(tuple, new Values(symbol, tuple.getString(1), day, lowest, highest, tuple.getValue(4), tuple.getValue(5)));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("symbol", "company", "day", "lowest", "highest", Line.SOURCE_MACHINE, Line.DUE_MS));
    }
}
