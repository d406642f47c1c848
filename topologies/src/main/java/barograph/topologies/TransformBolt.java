package barograph.topologies;

/** Keeps a share of each text, from its beginning, so that what comes after it costs less. */
public final class TransformBolt extends CostedBolt {
    private final double keeps;

    /** {@code keeps}: the share of the characters that stays, above 0 and at most 1. */
    public TransformBolt(String costModel, double msPerCharacter, double keeps) {
        super(costModel, msPerCharacter);
        this.keeps = Share.of("keeps", keeps);
    }

    /** Rounded, not cut: cutting would shrink the short texts of a long chain by more than the share. */
    @Override
    Line work(Line line) {
        return line.withText(line.text().substring(0, (int) Math.round(keeps * line.text().length())));
    }
}
