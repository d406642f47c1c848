package barograph.topologies;

/** Counts the lines of each id that this task has seen, and appends the count to the text: eight hexadecimal characters. */
public final class AggregateBolt extends CostedBolt {
    private transient int[] seen;

    public AggregateBolt(String costModel, double msPerCharacter) {
        super(costModel, msPerCharacter);
    }

    @Override
    void begin(int task) {
        seen = new int[LogLines.IDS];
    }

    @Override
    Line work(Line line) {
        return line.withCount(++seen[line.id()]);
    }
}
