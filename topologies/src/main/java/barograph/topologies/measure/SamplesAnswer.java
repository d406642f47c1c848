package barograph.topologies.measure;

import barograph.topologies.EmissionRecords;
import barograph.topologies.EmissionRecords.EmissionRecord;
import barograph.topologies.EmissionRecords.RateChange;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The policy service's answer to samples: {@code {"input_rate_factor": 1.5}}; to a worker that begins it also has {@code topology},
 * {@code schedules} and {@code input_rates} (docs/contracts.md).
 *
 * @param factor empty where the answer states none, or none that a rate can be multiplied by
 * @param records unknown where the answer states none, or none that can be read
 */
record SamplesAnswer(OptionalDouble factor, EmissionRecords records) {
    private static final String FACTOR = "input_rate_factor";
    /** Beyond these a grid of nanoseconds has no room for the rate; neither plan nor service (emission_records.py) takes others. */
    private static final double LEAST = 1e-6;
    private static final double MOST = 1000;
    private static final double MICROS_PER_SECOND = 1e6;
    private static final long NANOS_PER_MICRO = 1000;
    private static final Logger LOG = LoggerFactory.getLogger(SamplesAnswer.class);

    static SamplesAnswer of(String answer) {
        Map<?, ?> fields = JSONValue.parse(answer) instanceof Map<?, ?> map ? map : Map.of();
        Object stated = fields.get(FACTOR);
        boolean isFactor = stated instanceof Number number && isFactor(number.doubleValue());
        if (stated != null && !isFactor) {
            LOG.warn("the answer to samples: {} is {}; it must be a number from {} to {}: the input rate stays", FACTOR, stated, LEAST, MOST);
        }
        return new SamplesAnswer(isFactor ? OptionalDouble.of(((Number) stated).doubleValue()) : OptionalDouble.empty(), records(fields));
    }

    private static EmissionRecords records(Map<?, ?> fields) {
        if (!fields.containsKey("schedules")) {
            return EmissionRecords.UNKNOWN;
        }
        try {
            return new EmissionRecords((String) fields.get("topology"), byTask((Map<?, ?>) fields.get("schedules"), rates(fields)));
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

    /** In their order, whatever the service's clock did meanwhile. */
    private static List<RateChange> rates(Map<?, ?> fields) {
        List<RateChange> rates = new ArrayList<>();
        for (Object change : (List<?>) fields.get("input_rates")) {
            long from = nanos(((List<?>) change).get(0));
            double factor = ((Number) ((List<?>) change).get(1)).doubleValue();
            if (!isFactor(factor)) {
                throw new IllegalArgumentException("an input rate is " + factor);
            }
            rates.add(new RateChange(rates.isEmpty() ? from : Math.max(from, rates.get(rates.size() - 1).fromNanos()), factor));
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
