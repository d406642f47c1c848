package barograph.topologies.opengov;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import barograph.topologies.opengov.PublicRecords.Contract;
import barograph.topologies.opengov.PublicRecords.Quote;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.storm.utils.TupleUtils;
import org.junit.jupiter.api.Test;

class PublicRecordsTest {
    private static final Path CASES = Path.of("..", "tests", "contract", "public_records.json");
    private static final int COMPANIES = 760;
    private static final int SURGE_DAYS = 800;

    private static JsonNode cases() throws Exception {
        return new ObjectMapper().readTree(CASES.toFile());
    }

    private static PublicRecords records(long seed) {
        return new PublicRecords(seed, COMPANIES);
    }

    private static List<Quote> quotes(LongFunction<Quote> source, int n) {
        return LongStream.range(0, n).mapToObj(day -> source.apply(day / 100)).toList();
    }

    @Test
    void namesAndTheirTasksAreThoseOfPython() throws Exception {
        for (JsonNode wanted : cases().get("names")) {
            int number = wanted.get("number").asInt();
            assertEquals(wanted.get("symbol").asText(), Companies.symbol(number));
            assertEquals(wanted.get("company").asText(), Companies.company(number));
            assertEquals(wanted.get("contractor").asText(), Companies.contractor(number));
        }
        for (JsonNode wanted : cases().get("keys")) {
            String key = wanted.get("key").asText();
            assertEquals(wanted.get("hash").asInt(), key.hashCode());
            wanted.get("task_of").properties().forEach(
                each -> assertEquals(each.getValue().asInt(), TupleUtils.chooseTaskIndex(List.of(key), Integer.parseInt(each.getKey()))));
        }
    }

    @Test
    void aFileIsUnpackedAsPythonPacksIt() throws Exception {
        RecordsFile file = RecordsFile.of(cases().get("file").get("packed").asText());
        LongFunction<Quote> quotes = file.quotes(0, 1);
        assertEquals(List.of(10.0, 25.5, 30.0, 10.0), quotes(quotes, 4).stream().map(Quote::price).toList());
        assertEquals("Acme Corporation", quotes.apply(0).company());
        Supplier<Contract> contracts = file.contracts(0, 1);
        assertEquals(
            List.of(new Contract("Acme Metals", 50000), new Contract("Écrous & Fils", 70000), new Contract("Acme Metals", 50000)),
            Stream.generate(contracts).limit(3).toList());
        assertEquals(Map.of("Acme Metals", "Acme Corporation", "Écrous & Fils", "Bolt, Industries"), file.parents());
        int absent = IntStream.range(0, 50).filter(task -> !Companies.isOf("ACM", task, 50) && !Companies.isOf("BOL", task, 50)).findFirst().orElseThrow();
        String message = assertThrows(IllegalArgumentException.class, () -> file.quotes(absent, 50)).getMessage();
        assertTrue(message.contains("none of the file's rows belongs to task " + absent + " of 50"), message);
    }

    @Test
    void eachTaskHasTheCompaniesThatStormWouldSendToIt() {
        Set<String> all = new HashSet<>();
        for (int task = 0; task < 5; task++) {
            Set<String> mine = quotes(records(1).quotes(task, 5, 0, SURGE_DAYS), 20_000).stream().map(Quote::symbol).collect(Collectors.toSet());
            for (String symbol : mine) {
                assertEquals(task, TupleUtils.chooseTaskIndex(List.of(symbol), 5));
            }
            all.addAll(mine);
        }
        assertEquals(COMPANIES, all.size());
    }

    @Test
    void aSeedDrawsTheSameAgain() {
        assertEquals(quotes(records(3).quotes(1, 5, 0.5, SURGE_DAYS), 500), quotes(records(3).quotes(1, 5, 0.5, SURGE_DAYS), 500));
        assertNotEquals(quotes(records(3).quotes(1, 5, 0.5, SURGE_DAYS), 500), quotes(records(4).quotes(1, 5, 0.5, SURGE_DAYS), 500));
        assertEquals(
            Stream.generate(records(3).contracts(1, 5, 8, 1)).limit(500).toList(),
            Stream.generate(records(3).contracts(1, 5, 8, 1)).limit(500).toList());
    }

    @Test
    void skewIsAnExponentOfTheCompanysNumber() {
        Map<String, Integer> counts = new HashMap<>();
        int n = 100_000;
        Stream.generate(records(1).contracts(0, 1, 1, 1)).limit(n).forEach(contract -> counts.merge(contract.contractor(), 1, Integer::sum));
        double total = IntStream.rangeClosed(1, COMPANIES).mapToDouble(number -> 1.0 / number).sum();
        for (int number : new int[] {0, 1, 9}) {
            double share = 1 / (number + 1.0) / total;
            assertEquals(share, counts.get(Companies.contractor(number)) / (double) n, 4 * Math.sqrt(share / n)); // four standard deviations
        }
    }

    @Test
    void aContractorBelongsToOneCompany() {
        assertEquals(Companies.company(7), Companies.parent(Companies.contractor(7), COMPANIES));
        assertEquals(Companies.company(7), Companies.parent(Companies.contractor(7 + 3 * COMPANIES), COMPANIES));
    }

    /** What opengov's filter passes follows from this: of 800 days 19 see both prices within 20. */
    @Test
    void aPriceJumpsOnceInSoManyDaysAndStaysInBetween() {
        LongFunction<Quote> source = new PublicRecords(1, 1).quotes(0, 1, 0, SURGE_DAYS);
        int jumps = 0;
        double before = source.apply(0).price();
        for (long day = 1; day < 10L * SURGE_DAYS; day++) {
            double price = source.apply(day).price();
            double ratio = Math.max(price, before) / Math.min(price, before);
            assertTrue(ratio < 1.12 || ratio > 2.7, "day " + day + ": " + ratio);
            jumps += ratio > 2 ? 1 : 0;
            before = price;
        }
        assertEquals(10, jumps, 1);
        IntStream.range(0, 100).forEach(n -> assertTrue(source.apply(-n).price() > 0));
    }

    @Test
    void tooFewCompaniesForTheTasksAreRefused() {
        String message = assertThrows(IllegalArgumentException.class, () -> {
            for (int task = 0; task < 5; task++) {
                new PublicRecords(1, 2).quotes(task, 5, 0, SURGE_DAYS);
            }
        }).getMessage();
        assertTrue(message.contains("none of 2 keys belongs to task"), message);
    }

    @Test
    void allSourcesHaveTheSameDay() {
        DayClock days = new DayClock(2);
        assertEquals(0, days.at(1999.9));
        assertEquals(881_856_172L, days.at(1_763_712_345_003.5));
        assertThrows(IllegalArgumentException.class, () -> new DayClock(0));
    }
}
