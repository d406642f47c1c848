package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The batch reads the same file (tests/contract/test_ratings.py): ratings and lists of the stream are its own. */
class RecommendTest {
    private static final double DUE_MS = 1_763_712_345_003.5;
    private static final int TASKS = 3;
    private static JsonNode cases;

    @BeforeAll
    static void read() throws IOException {
        cases = new ObjectMapper().readTree(Path.of("..", "tests", "contract", "ratings.json").toFile());
    }

    private static Ratings law(JsonNode law) {
        return new Ratings(
            law.get(0).asLong(), law.get(1).asInt(), law.get(2).asDouble(), law.get(3).asInt(), law.get(4).asDouble(), law.get(5).asDouble(),
            law.get(6).asLong(), law.get(7).asInt());
    }

    @Test
    void ratingsAreThoseOfSpark() {
        JsonNode one = cases.get("ratings");
        Ratings ratings = law(one.get("law"));
        for (JsonNode each : one.get("number, user, movie, stars")) {
            Ratings.Rating expected = new Ratings.Rating(each.get(1).asInt(), each.get(2).asInt(), each.get(3).asInt());
            assertEquals(expected, ratings.rating(each.get(0).asLong()), each.toString());
        }
    }

    private static List<RatingSpout> spouts(JsonNode law) {
        return IntStream.range(0, TASKS).mapToObj(place -> {
            RatingSpout spout = new RatingSpout(
                1, law.get(0).asLong(), false, "skip", law.get(1).asInt(), law.get(2).asDouble(), law.get(3).asInt(), law.get(4).asDouble(),
                law.get(5).asDouble(), law.get(6).asLong(), law.get(7).asInt());
            spout.begin(place, TASKS);
            return spout;
        }).toList();
    }

    /** Tasks of the spout take turns; users and movies are dealt to tasks of the bolts as a grouping by the id does. */
    @Test
    void listsAreThoseOfTheBatch() {
        JsonNode one = cases.get("lists");
        List<RatingSpout> spouts = spouts(one.get("law"));
        int listSize = one.get("list_size").asInt();
        List<HistoryBolt> histories = IntStream.range(0, TASKS)
            .mapToObj(task -> new HistoryBolt("none", 0, one.get("history_size").asInt())).toList();
        List<SimilarBolt> similars = IntStream.range(0, TASKS).mapToObj(task -> new SimilarBolt("none", 0, listSize)).toList();
        histories.forEach(HistoryBolt::begin);
        similars.forEach(bolt -> bolt.begin(1));
        TreeMap<Integer, String> lists = new TreeMap<>();
        for (int number = 0; number < one.get("number").asInt(); number++) {
            Line rating = spouts.get(number % TASKS).rating(DUE_MS, "m1");
            for (Line pair : histories.get(rating.id() % TASKS).pairs(rating)) {
                assertEquals(DUE_MS, pair.dueMs());
                assertEquals(8, pair.text().length());
                Line list = similars.get(pair.id() % TASKS).work(pair);
                assertEquals(pair.id(), list.id());
                lists.put(list.id(), list.text());
            }
        }
        assertEquals(one.get("of").size(), lists.size());
        one.get("of").properties().forEach(each -> {
            StringBuilder expected = new StringBuilder();
            each.getValue().forEach(entry -> expected.append(String.format("m%07d%8d", entry.get(0).asInt(), entry.get(1).asInt())));
            assertEquals(expected.toString(), lists.get(Integer.parseInt(each.getKey())), each.getKey());
        });
    }

    /** Jack is a fan of movies 1 and 2 when he rates 3 (Wu 2015, figure 13); what he rates again, or low, makes no pair. */
    @Test
    void aRatingMakesThePairsOfTheThesis() {
        HistoryBolt history = new HistoryBolt("none", 0, 2);
        history.begin();
        List<List<String>> made = new ArrayList<>();
        for (int[] rating : new int[][] {{1, 4}, {9, 3}, {2, 5}, {1, 5}, {3, 4}, {4, 4}}) {
            Line line = new Line(SimilarBolt.name(rating[0]), 77, rating[1], "m1", DUE_MS);
            made.add(history.pairs(line).stream().map(pair -> pair.id() + "-" + SimilarBolt.number(pair.text())).toList());
        }
        assertEquals(
            List.of(List.of(), List.of(), List.of("2-1", "1-2"), List.of(), List.of("3-1", "1-3", "3-2", "2-3"),
                List.of("4-2", "2-4", "4-3", "3-4")),
            made);
    }

    @Test
    void whatCannotBeIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> new HistoryBolt("none", 0, 0));
        assertThrows(IllegalArgumentException.class, () -> new SimilarBolt("none", 0, 0));
        IllegalArgumentException error = assertThrows(
            IllegalArgumentException.class, () -> new Ratings(1, 10, 0.6, 10, 0.2, 0.5, 100, 1));
        assertTrue(error.getMessage().contains("user_ratio is 0.6"));
        assertThrows(IllegalArgumentException.class, () -> new Ratings(1, 0, 0.2, 10, 0.2, 0.5, 100, 1));
    }
}
