package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ComponentsTest {
    private static final int MANY = 50_000;
    private static final double DUE_MS = 1_763_712_345_003.5;

    private static List<Line> lines(int n) {
        LogLines source = new LogLines(5, 1);
        return Stream.generate(() -> source.next(DUE_MS, "m1")).limit(n).toList();
    }

    private static double meanLength(List<Line> lines) {
        return lines.stream().mapToInt(line -> line.text().length()).average().orElseThrow();
    }

    private static List<Line> through(CostedBolt bolt, int task, List<Line> lines) {
        bolt.begin(task);
        List<Line> made = new ArrayList<>();
        for (Line line : lines) {
            Line out = bolt.work(line);
            if (out != null) {
                made.add(out);
            }
        }
        return made;
    }

    @Test
    void aTransformKeepsEightyPercentOfEachText() {
        List<Line> before = lines(MANY);
        List<Line> after = through(new TransformBolt("none", 0, 0.8), 1, before);
        assertEquals(0.8 * meanLength(before), meanLength(after), 0.05);
        for (int i = 0; i < MANY; i++) {
            Line line = before.get(i);
            assertEquals(0.8 * line.text().length(), after.get(i).text().length(), 0.5);
            assertTrue(line.text().startsWith(after.get(i).text()));
            assertEquals(line, after.get(i).withText(line.text()));
        }
    }

    @Test
    void aTextNeverVanishesInALongChain() {
        TransformBolt transform = new TransformBolt("none", 0, 0.8);
        Line line = new Line("abcdef", 0, 0, "m1", DUE_MS);
        for (int i = 0; i < 20; i++) {
            line = transform.work(line);
        }
        assertTrue(line.text().length() >= 1, line.text());
    }

    @Test
    void aFilterPassesItsShareUnchanged() {
        List<Line> before = lines(MANY);
        List<Line> after = through(new FilterBolt("none", 0, 0.8, 9), 1, before);
        assertEquals(0.8, after.size() / (double) MANY, 4 * Math.sqrt(0.8 * 0.2 / MANY)); // four standard deviations
        assertTrue(before.containsAll(after.subList(0, 50)));
        assertEquals(meanLength(before), meanLength(after), 0.5); // long and short ones alike
    }

    @Test
    void aSeedAndATaskChooseAlike() {
        List<Line> before = lines(1000);
        List<Line> chosen = through(new FilterBolt("none", 0, 0.8, 9), 1, before);
        assertEquals(chosen, through(new FilterBolt("none", 0, 0.8, 9), 1, before));
        assertNotEquals(chosen, through(new FilterBolt("none", 0, 0.8, 9), 2, before));
        assertNotEquals(chosen, through(new FilterBolt("none", 0, 0.8, 10), 1, before));
        assertEquals(before, through(new FilterBolt("none", 0, 1.0, 9), 1, before));
    }

    @Test
    void anAggregateAppendsTheCountOfItsId() {
        Line a = new Line("one", 7, 100, "m1", DUE_MS);
        Line b = new Line("two", 8, 101, "m1", DUE_MS);
        List<Line> made = through(new AggregateBolt("none", 0), 1, List.of(a, b, a));
        assertEquals(List.of(
            new Line("one00000001", 7, 1, "m1", DUE_MS), new Line("two00000001", 8, 1, "m1", DUE_MS), new Line("one00000002", 7, 2, "m1", DUE_MS)), made);
        AggregateBolt again = new AggregateBolt("none", 0);
        assertTrue(through(again, 1, lines(MANY)).stream().allMatch(line -> line.text().length() >= LogLines.SHORTEST + 8));
    }

    @Test
    void othersPassOrEnd() {
        Line line = lines(1).get(0);
        assertSame(line, new PassBolt("none", 0).work(line));
        assertNull(new SinkBolt("none", 0).work(line));
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, -0.1, 1.01, Double.NaN})
    void aShareIsAPartOfAWhole(double share) {
        for (String message : List.of(
            assertThrows(IllegalArgumentException.class, () -> new TransformBolt("none", 0, share)).getMessage(),
            assertThrows(IllegalArgumentException.class, () -> new FilterBolt("none", 0, share, 1)).getMessage())) {
            assertTrue(message.contains("is " + share + "; it must be above 0 and at most 1"), message);
        }
    }

    @Test
    void aJoinCountsPartnersOfTheOtherSideUntilTheyAreTooOld() {
        JoinBolt.Retention kept = new JoinBolt.Retention(30);
        byte[] none = {};
        assertEquals(0, kept.join("left", 1, none, 0));
        assertEquals(0, kept.join("left", 1, none, 5), "of its own side");
        assertEquals(2, kept.join("right", 1, none, 6));
        assertEquals(0, kept.join("right", 2, none, 6), "of another id");
        assertEquals(1, kept.join("right", 1, none, 30), "the first one is 30 old, and gone");
        assertEquals(4, kept.size());
        assertEquals(1, kept.join("left", 1, none, 59));
        assertEquals(2, kept.size(), "what came within the last 30, this one too");
    }
}
