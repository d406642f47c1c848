package barograph.topologies.measure;

import barograph.topologies.EmissionRecords;
import barograph.topologies.EmissionRecords.EmissionRecord;
import barograph.topologies.EmissionRecords.RateChange;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalDouble;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The policy service's answer to samples: {@code {"input_rate_factor": 1.5}}; to a worker that begins it also has {@code topology},
 * {@code schedules} and {@code input_rates}. Once a rate follows a course every answer has {@code input_rates}, those that are
 * ahead too (docs/contracts.md).
 *
 * @param factor empty where the answer states none, or none that a rate can be multiplied by
 * @param rates null where no rate follows a course, or none that can be read
 * @param records unknown where the answer states none, or none that can be read
 */
record SamplesAnswer(OptionalDouble factor, Rates rates, EmissionRecords records) {
    private static final String FACTOR = "input_rate_factor";
    /** Beyond these a grid of nanoseconds has no room for the rate; neither plan nor service (emission_records.py) takes others. */
    private static final double LEAST = 1e-6;
    private static final double MOST = 1000;
    private static final double MICROS_PER_SECOND = 1e6;
    private static final long NANOS_PER_MICRO = 1000;
    private static final Logger LOG = LoggerFactory.getLogger(SamplesAnswer.class);

    /** Changes of the input rate, oldest first: of all sources, and of components that have their own. */
    record Rates(List<RateChange> ofAll, Map<String, List<RateChange>> bySource) {
        List<RateChange> of(String component) {
            return bySource.getOrDefault(component, ofAll);
        }

        /** Only with their numbers of tuples (docs/contracts.md) do they say when to follow them. */
        boolean areTimed() {
            return !ofAll.isEmpty() && ofAll.stream().noneMatch(change -> Double.isNaN(change.seconds()));
        }
    }

    static SamplesAnswer of(String answer) {
        Map<?, ?> fields = JSONValue.parse(answer) instanceof Map<?, ?> map ? map : Map.of();
        Object stated = fields.get(FACTOR);
        boolean isFactor = stated instanceof Number number && isFactor(number.doubleValue());
        if (stated != null && !isFactor) {
            LOG.warn("the answer to samples: {} is {}; it must be a number from {} to {}: the input rate stays", FACTOR, stated, LEAST, MOST);
        }
        Rates rates = fields.containsKey("input_rates") ? rates(fields) : null;
        return new SamplesAnswer(
            isFactor ? OptionalDouble.of(((Number) stated).doubleValue()) : OptionalDouble.empty(),
            rates != null && rates.areTimed() ? rates : null, records(fields, rates));
    }

    private static EmissionRecords records(Map<?, ?> fields, Rates rates) {
        if (!fields.containsKey("schedules")) {
            return EmissionRecords.UNKNOWN;
        }
        try {
            Objects.requireNonNull(rates, "without input rates");
            return new EmissionRecords(
                (String) fields.get("topology"), byTask((Map<?, ?>) fields.get("schedules"), rates.ofAll), rates.bySource);
        } catch (ClassCastException | NullPointerException | IndexOutOfBoundsException | IllegalArgumentException e) {
            LOG.warn("the answer to a worker that begins cannot be read ({}): its sources begin their schedules anew", e.toString());
            return EmissionRecords.UNKNOWN;
        }
    }

    private static Map<Integer, EmissionRecord> byTask(Map<?, ?> schedules, List<RateChange> rates) {
        Map<Integer, EmissionRecord> records = new HashMap<>();
        schedules.forEach((task, stated) -> {
            Map<?, ?> record = (Map<?, ?>) stated;
            long behind = ((Number) record.get("behind")).longValue();
            if (behind < 0 || rates.isEmpty()) {
                throw new IllegalArgumentException("task " + task + " is " + behind + " behind, at " + rates.size() + " rates");
            }
            records.put(Integer.valueOf((String) task), new EmissionRecord(nanos(record.get("t")), behind, rates));
        });
        return records;
    }

    /** Null where they cannot be read. */
    private static Rates rates(Map<?, ?> fields) {
        try {
            Map<String, List<RateChange>> bySource = new HashMap<>();
            if (fields.get("source_rates") instanceof Map<?, ?> stated) {
                stated.forEach((component, changes) -> bySource.put((String) component, changes((List<?>) changes)));
            }
            return new Rates(changes((List<?>) fields.get("input_rates")), bySource);
        } catch (ClassCastException | NullPointerException | IndexOutOfBoundsException | IllegalArgumentException e) {
            LOG.warn("input rates of the answer to samples cannot be read ({}): those that are known stay", e.toString());
            return null;
        }
    }

    /** In their order, whatever the service's clock did meanwhile. */
    private static List<RateChange> changes(List<?> stated) {
        List<RateChange> rates = new ArrayList<>();
        for (Object each : stated) {
            List<?> change = (List<?>) each;
            long from = nanos(change.get(0));
            double factor = ((Number) change.get(1)).doubleValue();
            double seconds = change.size() > 2 ? ((Number) change.get(2)).doubleValue() : Double.NaN;
            if (!isFactor(factor) && !(factor == 0 && seconds >= 0)) {
                throw new IllegalArgumentException("an input rate is " + factor);
            }
            long after = rates.isEmpty() ? from : Math.max(from, rates.get(rates.size() - 1).fromNanos());
            rates.add(new RateChange(after, factor, seconds));
        }
        return rates;
    }

    private static boolean isFactor(double factor) {
        return factor >= LEAST && factor <= MOST;
    }

    /** A double has no more of an epoch time than microseconds. */
    private static long nanos(Object epochSeconds) {
        return Math.round(((Number) epochSeconds).doubleValue() * MICROS_PER_SECOND) * NANOS_PER_MICRO;
    }
}
