package barograph.topologies;

/** Sends every line on as it came, after paying its cost. */
public final class PassBolt extends CostedBolt {
    public PassBolt(String costModel, double msPerCharacter) {
        super(costModel, msPerCharacter);
    }

    @Override
    Line work(Line line) {
        return line;
    }
}
