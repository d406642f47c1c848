package barograph.topologies.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class AvroTest {
    private static String hex(Avro avro) {
        return HexFormat.of().formatHex(avro.toBytes());
    }

    /** The bytes of Avro's specification. */
    @ParameterizedTest
    @CsvSource({"0, 00", "-1, 01", "1, 02", "-2, 03", "-64, 7f", "64, 8001", "8192, 808001", "9223372036854775807, feffffffffffffffff01",
        "-9223372036854775808, ffffffffffffffffff01"})
    void wholeNumbers(long value, String bytes) {
        assertEquals(bytes, hex(new Avro().number(value)));
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, 1.5, 0.05, 0.0004, -0.0004, 903.1004, -12.3456, 1763712345.0030001, 0.1 + 0.2})
    void decimalsAreThoseOfTheJsonLine(double value) {
        String text = new Json().begin().field("n", value).end().toString();
        double read = Double.parseDouble(text.substring(text.indexOf(' '), text.length() - 1));
        assertEquals(HexFormat.of().toHexDigits(Long.reverseBytes(Double.doubleToLongBits(read))), hex(new Avro().value(value)));
    }

    @Test
    void decimalsAreTheLowestByteFirst() {
        assertEquals("000000000000f83f", hex(new Avro().value(1.5)));
    }

    @Test
    void textListsAndWhatIsNull() {
        assertEquals("06666f6f", hex(new Avro().value("foo")));
        assertEquals("04c3a9", hex(new Avro().value("é")));
        assertEquals("04063600", hex(new Avro().value(new int[] {3, 27})));
        assertEquals("00", hex(new Avro().value(new int[0])));
        assertEquals("00" + "0202" + "00", hex(new Avro().optional(null).optional(1L).optional(Double.NaN)));
    }

    @Test
    void aColumnIsAnArray() {
        assertEquals("04" + "0202" + "00" + "00", hex(new Avro().column(Arrays.asList(1, null), true, row -> row)));
        assertEquals("00", hex(new Avro().column(List.of(), false, Function.identity())));
    }
}
