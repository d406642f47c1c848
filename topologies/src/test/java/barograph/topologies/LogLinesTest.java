package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class LogLinesTest {
    private static List<String> lines(long seed, int n) {
        LogLines lines = new LogLines(seed);
        return Stream.generate(lines::next).limit(n).toList();
    }

    @Test
    void lengthsAreThoseOfTheAuthorsLines() {
        var lengths = lines(7, 200_000).stream().mapToInt(String::length).summaryStatistics();
        assertEquals(40.25, lengths.getAverage(), 0.3);
        assertEquals(6, lengths.getMin());
        assertEquals(120, lengths.getMax());
    }

    @Test
    void aSeedGivesTheSameLinesAgain() {
        assertEquals(lines(3, 1000), lines(3, 1000));
        assertNotEquals(lines(3, 1000), lines(4, 1000));
    }
}
