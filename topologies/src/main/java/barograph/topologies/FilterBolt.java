package barograph.topologies;

import java.util.SplittableRandom;

/** Sends on a share of the lines, drawn at random: a seed and a task choose alike in every run. */
public final class FilterBolt extends CostedBolt {
    private final double passes;
    private final long seed;
    private transient SplittableRandom random;

    /** {@code passes}: the share of the lines that is sent on, above 0 and at most 1. */
    public FilterBolt(String costModel, double msPerCharacter, double passes, long seed) {
        super(costModel, msPerCharacter);
        this.passes = Share.of("passes", passes);
        this.seed = seed;
    }

    @Override
    void begin(int task) {
        random = LogLines.random(seed, task);
    }

    @Override
    Line work(Line line) {
        return random.nextDouble() < passes ? line : null;
    }
}
