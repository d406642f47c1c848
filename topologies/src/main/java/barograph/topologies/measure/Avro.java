package barograph.topologies.measure;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/** Writes values in Avro's binary form; numbers have at most three decimals, as in {@link Json}. */
final class Avro {
    private static final int NULL = 0;
    private static final int VALUE = 1;
    private byte[] bytes = new byte[1024];
    private int size;

    /** Whole numbers of any width: the sign in the last bit, seven bits a byte, the lowest first. */
    Avro number(long value) {
        long left = value << 1 ^ value >> Long.SIZE - 1;
        while ((left & ~0x7FL) != 0) {
            one((int) (left & 0x7F | 0x80));
            left >>>= 7;
        }
        return one((int) left);
    }

    Avro raw(byte[] value) {
        room(value.length);
        System.arraycopy(value, 0, bytes, size, value.length);
        size += value.length;
        return this;
    }

    /** Text, and bytes of any number: their length comes first. */
    Avro counted(byte[] value) {
        return number(value.length).raw(value);
    }

    Avro value(Object value) {
        if (value instanceof Double number) {
            return decimal(number);
        }
        if (value instanceof int[] numbers) {
            number(numbers.length);
            Arrays.stream(numbers).forEach(this::number);
            return numbers.length == 0 ? this : number(0);
        }
        return value instanceof Number number ? number(number.longValue()) : counted(value.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** A value that may be null, or is not a number. */
    Avro optional(Object value) {
        boolean isNull = value == null || value instanceof Double number && !Double.isFinite(number);
        return isNull ? number(NULL) : number(VALUE).value(value);
    }

    /** A group that is there, and its columns after it. */
    Avro begin() {
        return number(VALUE);
    }

    Avro absent() {
        return number(NULL);
    }

    /** One value per row. */
    <T> Avro column(List<T> rows, boolean isOptional, Function<T, Object> value) {
        number(rows.size());
        for (T row : rows) {
            if (isOptional) {
                optional(value.apply(row));
            } else {
                value(value.apply(row));
            }
        }
        return rows.isEmpty() ? this : number(0);
    }

    byte[] toBytes() {
        return Arrays.copyOf(bytes, size);
    }

    private Avro decimal(double value) {
        long bits = Double.doubleToLongBits(Json.rounded(value));
        for (int i = 0; i < Long.BYTES; i++) {
            one((int) (bits >>> 8 * i & 0xFF));
        }
        return this;
    }

    private Avro one(int value) {
        room(1);
        bytes[size++] = (byte) value;
        return this;
    }

    private void room(int more) {
        if (size + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, size + more));
        }
    }
}
