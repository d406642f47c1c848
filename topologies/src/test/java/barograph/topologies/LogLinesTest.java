package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class LogLinesTest {
    private static List<Line> lines(long seed, int n) {
        LogLines lines = new LogLines(seed, 3);
        return Stream.generate(() -> lines.next(0, "m1")).limit(n).toList();
    }

    @Test
    void lengthsAreThoseOfTheAuthorsLines() {
        var lengths = lines(7, 200_000).stream().mapToInt(line -> line.text().length()).summaryStatistics();
        assertEquals(40.25, lengths.getAverage(), 0.3);
        assertEquals(6, lengths.getMin());
        assertEquals(120, lengths.getMax());
    }

    @Test
    void aSeedGivesTheSameLinesAgain() {
        assertEquals(lines(3, 1000), lines(3, 1000));
        assertNotEquals(lines(3, 1000), lines(4, 1000));
    }

    @Test
    void idsSpreadEvenlyOverTheTasksOfAGrouping() {
        long[] perTask = new long[8];
        lines(7, 80_000).forEach(line -> perTask[line.id() % perTask.length]++);
        for (long lines : perTask) {
            assertEquals(10_000, lines, 500);
        }
    }

    @Test
    void tasksOfOneSeedDrawDifferentLines() {
        assertNotEquals(lines(3, 100).get(99), new LogLines(3, 4).next(0, "m1"));
        assertEquals(List.of(0, 1, 2), lines(3, 3).stream().map(Line::count).toList());
    }
}
