package barograph.topologies;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/**
 * Keeps the movies that each user is a fan of, and emits a line for each pair of a new one with one of the last {@code historySize} of
 * them, both ways: the one as id, the other as text (Wu 2015, listing 5.1, which pairs it with all). After a restart it begins without any.
 */
public final class HistoryBolt extends TupleBolt {
    private record History(Set<Integer> movies, Deque<Integer> latest) {
    }

    private final LineCost cost;
    private final int historySize;
    private transient Map<Integer, History> histories;

    public HistoryBolt(String costModel, double msPerCharacter, int historySize) {
        if (historySize < 1) {
            throw new IllegalArgumentException("history_size is " + historySize + "; it must be 1 or above");
        }
        this.cost = new LineCost(costModel, msPerCharacter);
        this.historySize = historySize;
    }

    @Override
    protected void begin(TopologyContext context) {
        begin();
    }

    void begin() {
        histories = new HashMap<>();
    }

    List<Line> pairs(Line rating) {
        History history = histories.computeIfAbsent(rating.id(), user -> new History(new HashSet<>(), new ArrayDeque<>()));
        int movie = SimilarBolt.number(rating.text());
        if (rating.count() < Ratings.FAN || !history.movies.add(movie)) {
            return List.of();
        }
        List<Line> pairs = history.latest.stream()
            .flatMap(other -> Stream.of(pair(rating, movie, other), pair(rating, other, movie))).toList();
        history.latest.add(movie);
        if (history.latest.size() > historySize) {
            history.latest.remove();
        }
        return pairs;
    }

    private static Line pair(Line rating, int movie, int other) {
        return new Line(SimilarBolt.name(other), movie, 1, rating.sourceMachine(), rating.dueMs());
    }

    @Override
    protected void handle(Tuple tuple) {
        Line rating = Line.of(tuple);
        cost.spend(rating);
        pairs(rating).forEach(pair -> emit(tuple, pair.values()));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
