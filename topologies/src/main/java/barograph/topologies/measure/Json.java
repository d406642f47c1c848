package barograph.topologies.measure;

import java.util.List;
import java.util.function.Function;

/** Writes one JSON object; numbers have at most three decimals, and what was not measured is null. */
final class Json {
    private static final double DECIMALS = 1000.0;
    private final StringBuilder text = new StringBuilder(1024);
    private boolean first = true;

    Json begin() {
        text.append('{');
        first = true;
        return this;
    }

    Json end() {
        text.append('}');
        first = false;
        return this;
    }

    Json key(String name) {
        if (!first) {
            text.append(", ");
        }
        first = false;
        string(name);
        text.append(": ");
        return this;
    }

    Json field(String name, Object value) {
        key(name);
        value(value);
        return this;
    }

    /** One value per row under one name. */
    <T> Json column(String name, List<T> rows, Function<T, Object> value) {
        key(name);
        text.append('[');
        for (int i = 0; i < rows.size(); i++) {
            if (i > 0) {
                text.append(", ");
            }
            value(value.apply(rows.get(i)));
        }
        text.append(']');
        return this;
    }

    @Override
    public String toString() {
        return text.toString();
    }

    /** To three decimals: the number that is read where it was written so. */
    static double rounded(double value) {
        return Double.isFinite(value) ? Math.copySign(Math.round(Math.abs(value) * DECIMALS) / DECIMALS, value) + 0.0 : value;
    }

    private void value(Object value) {
        if (value instanceof Double number) {
            decimal(number);
        } else if (value == null || value instanceof Number) {
            text.append(value);
        } else if (value instanceof int[] numbers) {
            list(numbers);
        } else {
            string(value.toString());
        }
    }

    private void list(int[] numbers) {
        text.append('[');
        for (int i = 0; i < numbers.length; i++) {
            text.append(i > 0 ? "," : "").append(numbers[i]);
        }
        text.append(']');
    }

    private void decimal(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            text.append("null");
            return;
        }
        long thousandths = Math.round(Math.abs(value) * DECIMALS);
        text.append(value < 0 && thousandths > 0 ? "-" : "").append(thousandths / 1000).append('.');
        int fraction = (int) (thousandths % 1000);
        text.append((char) ('0' + fraction / 100));
        if (fraction % 100 != 0) {
            text.append((char) ('0' + fraction / 10 % 10));
        }
        if (fraction % 10 != 0) {
            text.append((char) ('0' + fraction % 10));
        }
    }

    private void string(String value) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < ' ') {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
