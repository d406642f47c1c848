package barograph.topologies;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.apache.storm.utils.TupleUtils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class KeySpoutTest {
    /** By what Storm's grouping by field asks. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 10, 80})
    void aKeyGoesToTheTaskThatItIsFor(int tasks) {
        for (int index = 0; index < tasks; index++) {
            byte[] key = KeySpout.key(LogLines.random(1, index), index, tasks);
            assertEquals(16, key.length);
            assertEquals(index, TupleUtils.chooseTaskIndex(List.of(key), tasks));
            assertArrayEquals(key, KeySpout.key(LogLines.random(1, index), index, tasks), "a seed gives it again");
        }
    }

    @Test
    void aPayloadIsAFieldOfItsOwn() {
        assertEquals(List.of("key", "source_machine", "due_ms"), KeySpout.fields(16).toList());
        assertEquals(List.of("key", "payload", "source_machine", "due_ms"), KeySpout.fields(3072).toList());
    }

    @ParameterizedTest
    @ValueSource(ints = {15, 0, -1, 1_000_001})
    void aSizeThatCannotBeIsRefused(int size) {
        for (String message : List.of(
            assertThrows(IllegalArgumentException.class, () -> new KeySpout(1, 1, false, "skip", size, 0)).getMessage(),
            assertThrows(IllegalArgumentException.class, () -> new RelayBolt(size)).getMessage())) {
            assertTrue(message.contains("size_bytes is " + size + "; it must be from 16, the key's, to 1000000"), message);
        }
    }

    @Test
    void aBurstReleasesWhatFellDueInThePeriodBefore() {
        assertEquals(1234, PacedSpout.released(1234, 0));
        assertEquals(1200, PacedSpout.released(1299, 100));
        assertEquals(1300, PacedSpout.released(1300, 100));
        for (double burstMs : new double[] {-1, 1000.5, Double.NaN}) {
            String message = assertThrows(IllegalArgumentException.class, () -> new CounterSpout(1, false, "skip", burstMs)).getMessage();
            assertTrue(message.contains("burst_ms is " + burstMs + "; it must be from 0 to 1000"), message);
        }
    }

    @Test
    void aStageMakesAsManyTuplesAsItsFanOut() {
        assertEquals(List.of(1, 1, 1), copies(new CounterBolt(2, 3, 5), 3));
        assertEquals(List.of(5, 5, 5), copies(new CounterBolt(3, 3, 5), 3));
        assertEquals(List.of(0, 1, 0, 1), copies(new CounterBolt(3, 3, 0.5), 4));
        assertEquals(List.of(1, 2, 1, 2), copies(new CounterBolt(3, 3, 1.5), 4));
        assertThrows(IllegalArgumentException.class, () -> new CounterBolt(3, 3, 0));
    }

    private static List<Integer> copies(CounterBolt bolt, int tuples) {
        return IntStream.range(0, tuples).mapToObj(tuple -> bolt.copies()).toList();
    }
}
