package barograph.topologies.opengov;

import barograph.topologies.opengov.PublicRecords.Contract;
import barograph.topologies.opengov.PublicRecords.Quote;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.zip.GZIPInputStream;

/**
 * Quotes and contracts of a file of one's own, which comes with the topology: packed by topologies/public_records.py, which has
 * checked it. Each task replays the rows of its own companies in the file's order, again and again.
 */
final class RecordsFile {
    private static final String QUOTE = "quote";

    /** {@code symbol} is of a quote, {@code parent} of a contract. */
    private record Row(String event, String symbol, String company, String parent, double amount) {
        static Row of(String line) {
            String[] cells = line.split("\t", -1);
            return new Row(cells[0], cells[1], cells[2], cells[3], Double.parseDouble(cells[4]));
        }

        boolean isQuote() {
            return event.equals(QUOTE);
        }
    }

    private final List<Row> rows;

    private RecordsFile(List<Row> rows) {
        this.rows = rows;
    }

    /** {@code packed}: lines of five cells with tabs between them, under gzip, in base 64. */
    static RecordsFile of(String packed) {
        byte[] compressed = Base64.getDecoder().decode(packed);
        try (GZIPInputStream stream = new GZIPInputStream(new ByteArrayInputStream(compressed))) {
            return new RecordsFile(new String(stream.readAllBytes(), StandardCharsets.UTF_8).lines().map(Row::of).toList());
        } catch (IOException e) {
            throw new UncheckedIOException("the records that came with the topology cannot be unpacked", e);
        }
    }

    LongFunction<Quote> quotes(int index, int tasks) {
        List<Quote> mine = rows.stream()
            .filter(row -> row.isQuote() && Companies.isOf(row.symbol, index, tasks))
            .map(row -> new Quote(row.symbol, row.company, row.amount))
            .toList();
        Supplier<Quote> next = replay(mine, index, tasks);
        return day -> next.get();
    }

    Supplier<Contract> contracts(int index, int tasks) {
        List<Contract> mine = rows.stream()
            .filter(row -> !row.isQuote() && Companies.isOf(row.company, index, tasks))
            .map(row -> new Contract(row.company, row.amount))
            .toList();
        return replay(mine, index, tasks);
    }

    private static <T> Supplier<T> replay(List<T> mine, int index, int tasks) {
        if (mine.isEmpty()) {
            throw new IllegalArgumentException("none of the file's rows belongs to task " + index + " of " + tasks
                + "; give rows of more companies or a lower number of sources");
        }
        List<T> copied = new ArrayList<>(mine);
        int[] place = {0};
        return () -> copied.get(place[0]++ % copied.size());
    }

    /** By contractor. */
    Map<String, String> parents() {
        Map<String, String> parents = new HashMap<>();
        rows.stream().filter(row -> !row.isQuote()).forEach(row -> parents.put(row.company, row.parent));
        return parents;
    }
}
