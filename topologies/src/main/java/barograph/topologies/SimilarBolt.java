package barograph.topologies;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Counts the mutual fans of each movie with every other, and sends on the movie's list at each one that comes: those with the most, in 16
 * characters each, the lower number first among equal ones. After a restart it begins without any.
 */
public final class SimilarBolt extends CostedBolt {
    private static final Comparator<Similar> MOST_FANS = Comparator.comparingInt(Similar::fans).reversed().thenComparing(Similar::movie);

    record Similar(int movie, int fans) {
    }

    private record Movie(Map<Integer, Integer> fans, List<Similar> list) {
    }

    private final int listSize;
    private transient Map<Integer, Movie> movies;

    public SimilarBolt(String costModel, double msPerCharacter, int listSize) {
        super(costModel, msPerCharacter);
        if (listSize < 1) {
            throw new IllegalArgumentException("list_size is " + listSize + "; it must be 1 or above");
        }
        this.listSize = listSize;
    }

    /** Eight characters, whatever the movie. */
    static String name(int movie) {
        return String.format("m%07d", movie);
    }

    static int number(String name) {
        return Integer.parseInt(name.substring(1));
    }

    @Override
    void begin(int task) {
        movies = new HashMap<>();
    }

    /** A movie's count only grows, so what was in the list leaves it only for one that has more. */
    List<Similar> list(int movie, int other) {
        Movie known = movies.computeIfAbsent(movie, unknown -> new Movie(new HashMap<>(), new ArrayList<>()));
        known.list.removeIf(each -> each.movie == other);
        known.list.add(new Similar(other, known.fans.merge(other, 1, Integer::sum)));
        known.list.sort(MOST_FANS);
        if (known.list.size() > listSize) {
            known.list.remove(listSize);
        }
        return known.list;
    }

    @Override
    Line work(Line pair) {
        String list = list(pair.id(), number(pair.text())).stream()
            .map(each -> name(each.movie) + String.format("%8d", each.fans)).collect(Collectors.joining());
        return new Line(list, pair.id(), pair.count(), pair.sourceMachine(), pair.dueMs());
    }
}
