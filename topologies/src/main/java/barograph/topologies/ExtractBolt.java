package barograph.topologies;

/** Sends on the hashtag of each line, with its topic as id; nothing of a line without one. */
public final class ExtractBolt extends CostedBolt {
    public ExtractBolt(String costModel, double msPerCharacter) {
        super(costModel, msPerCharacter);
    }

    @Override
    Line work(Line line) {
        int begin = line.text().indexOf('#');
        if (begin < 0) {
            return null;
        }
        int space = line.text().indexOf(' ', begin);
        String hashtag = line.text().substring(begin, space < 0 ? line.text().length() : space);
        return new Line(hashtag, Integer.parseInt(hashtag.substring(2)), line.count(), line.sourceMachine(), line.dueMs());
    }
}
