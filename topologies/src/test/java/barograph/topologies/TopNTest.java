package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.storm.Config;
import org.junit.jupiter.api.Test;

class TopNTest {
    private static final int TOPICS = 5000;
    private static final double SKEW = 0.5;
    private static final int TWEETS = 100_000;
    private static final double DUE_MS = 1_763_712_345_003.5;

    private static List<Line> tweets(long seed, int task, int number) {
        TweetSpout spout = new TweetSpout(1, seed, false, "skip", TOPICS, SKEW);
        spout.begin(task);
        return Stream.generate(() -> spout.tweet(DUE_MS, "m1")).limit(number).toList();
    }

    private static Line topic(Line tweet) {
        return new ExtractBolt("none", 0).work(tweet);
    }

    /** Pearson's statistic has 4999 degrees of freedom: so many on average, with a standard deviation of 100. */
    @Test
    void topicsFollowZipfsLaw() {
        long[] counts = new long[TOPICS];
        tweets(1, 1, TWEETS).forEach(tweet -> counts[topic(tweet).id()]++);
        double[] weights = IntStream.rangeClosed(1, TOPICS).mapToDouble(rank -> Math.pow(rank, -SKEW)).toArray();
        double all = IntStream.range(0, TOPICS).mapToDouble(topic -> weights[topic]).sum();
        double squares = IntStream.range(0, TOPICS).mapToDouble(topic -> {
            double expected = TWEETS * weights[topic] / all;
            return Math.pow(counts[topic] - expected, 2) / expected;
        }).sum();
        assertEquals(TOPICS - 1, squares, 4 * Math.sqrt(2.0 * (TOPICS - 1)));
        assertEquals(TWEETS * 0.00714, counts[0], 4 * Math.sqrt(TWEETS * 0.00714));
    }

    @Test
    void aSeedAndATaskTweetAlike() {
        assertEquals(tweets(1, 3, 500), tweets(1, 3, 500));
        assertNotEquals(tweets(1, 3, 500), tweets(1, 4, 500));
        assertNotEquals(tweets(1, 3, 500), tweets(2, 3, 500));
    }

    @Test
    void aTopicIsTakenOutOfTheText() {
        LogLines lines = new LogLines(5, 1);
        for (Line tweet : tweets(5, 1, 50)) {
            Line line = lines.next(DUE_MS, "m1");
            Line topic = topic(tweet);
            assertEquals(tweet.text(), line.text() + " " + topic.text());
            assertEquals(topic, new Line(TweetSpout.hashtag(topic.id()), topic.id(), line.count(), "m1", DUE_MS));
            assertEquals(8, topic.text().length());
        }
        assertEquals(4711, topic(new Line("so #t004711 it is", 1, 2, "m1", DUE_MS)).id());
        assertNull(topic(new Line("no topic", 1, 2, "m1", DUE_MS)));
    }

    /** Three tasks count; one of them begins anew twice, and ids change their task, as when tasks and keys move. */
    @Test
    void theListIsThatOfAllThatWereCountedWhoeverCounted() {
        SplittableRandom random = new SplittableRandom(7);
        Zipf law = new Zipf(IntStream.range(0, 40).toArray(), 1);
        List<AggregateBolt> counters = IntStream.range(0, 3).mapToObj(task -> new AggregateBolt("none", 0)).toList();
        counters.forEach(counter -> counter.begin(0));
        TopNBolt.Totals totals = new TopNBolt.Totals();
        Map<Integer, Integer> counted = new HashMap<>();
        for (int i = 0; i < 6000; i++) {
            if (i % 2500 == 2499) {
                counters.get(0).begin(0);
            }
            int id = law.next(random);
            int task = (id + i / 1700) % 3;
            totals.report(task, id, counters.get(task).work(new Line("", id, i, "m1", DUE_MS)).count());
            counted.merge(id, 1, Integer::sum);
        }
        List<Map.Entry<Integer, Integer>> wanted = counted.entrySet().stream()
            .sorted((a, b) -> a.getValue().equals(b.getValue()) ? a.getKey() - b.getKey() : b.getValue() - a.getValue()).toList();
        assertEquals(wanted.subList(0, 10), totals.highest(10));
        assertEquals(wanted, totals.highest(100));
        totals.report(9, 39, 500);
        totals.report(9, 39, 10_000);
        assertEquals(Map.entry(39, counted.get(39) + 1 + 9500), totals.highest(1).get(0), "reports between the two were lost");
    }

    @Test
    void stormTicksWhenAListIsDue() {
        assertEquals(Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, 7), new TopNBolt("none", 0, 3, 7).getComponentConfiguration());
    }

    @Test
    void whatCannotBeIsRefused() {
        for (String message : List.of(
            refusal(() -> new TweetSpout(1, 1, false, "skip", 0, SKEW)), refusal(() -> new TweetSpout(1, 1, false, "skip", 100_001, SKEW)),
            refusal(() -> new TweetSpout(1, 1, false, "skip", 1, -1)))) {
            assertTrue(message.matches("topics is -?\\d+ and topic_skew \\S+; they must be from 1 to 100000, and 0 or above"), message);
        }
        assertEquals("list_size is 0 and list_s 1; they must be 1 or above", refusal(() -> new TopNBolt("none", 0, 0, 1)));
        assertEquals("list_size is 1 and list_s 0; they must be 1 or above", refusal(() -> new TopNBolt("none", 0, 1, 0)));
    }

    static String refusal(org.junit.jupiter.api.function.Executable made) {
        return assertThrows(IllegalArgumentException.class, made).getMessage();
    }
}
