package barograph.topologies;

import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.TupleUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Adds up the counts of ids that come in, and emits those of the most frequent ones every so many seconds. */
public final class TopNBolt extends TupleBolt {
    private static final Logger LOG = LoggerFactory.getLogger(TopNBolt.class);

    private final LineCost cost;
    private final int listSize;
    private final int listS;
    private transient Totals totals;

    public TopNBolt(String costModel, double msPerCharacter, int listSize, int listS) {
        if (listSize < 1 || listS < 1) {
            throw new IllegalArgumentException("list_size is " + listSize + " and list_s " + listS + "; they must be 1 or above");
        }
        this.cost = new LineCost(costModel, msPerCharacter);
        this.listSize = listSize;
        this.listS = listS;
    }

    @Override
    protected void begin(TopologyContext context) {
        totals = new Totals();
    }

    @Override
    protected void handle(Tuple tuple) {
        if (TupleUtils.isTick(tuple)) {
            String list = totals.highest(listSize).stream()
                .map(each -> TweetSpout.hashtag(each.getKey()) + " " + each.getValue()).collect(Collectors.joining(", "));
            LOG.info("list: {}", list);
            emit(tuple, new Values(list));
        } else {
            Line line = Line.of(tuple);
            cost.spend(line);
            totals.report(tuple.getSourceTask(), line.id(), line.count());
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("list"));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, listS);
    }

    /**
     * Of each id, the sum of what tasks have counted since this began. A task that begins anew, or that an id comes to from another one,
     * counts from 1: what was counted before stays. A first report is one more, whatever was counted before it.
     */
    static final class Totals {
        private final Map<Long, Integer> reported = new HashMap<>();
        private final Map<Integer, Integer> sums = new HashMap<>();

        void report(int task, int id, int count) {
            Integer before = reported.put((long) task << Integer.SIZE | id, count);
            sums.merge(id, before == null ? 1 : count <= before ? count : count - before, Integer::sum);
        }

        List<Map.Entry<Integer, Integer>> highest(int most) {
            Comparator<Map.Entry<Integer, Integer>> byCount = Map.Entry.comparingByValue(Comparator.reverseOrder());
            return sums.entrySet().stream().sorted(byCount.thenComparing(Map.Entry.comparingByKey())).limit(most).toList();
        }
    }
}
