package barograph.topologies;

import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/**
 * Splits each line into words of so many characters, the last one of what is left. A word's id follows from the line's and from
 * its place in there: there are as many different words as ids, all as frequent.
 */
public final class SplitBolt extends TupleBolt {
    private static final int WORD_STEP = 31;

    private final LineCost cost;
    private final int wordCharacters;

    public SplitBolt(String costModel, double msPerCharacter, int wordCharacters) {
        if (wordCharacters < 1) {
            throw new IllegalArgumentException("word_characters is " + wordCharacters + "; it must be 1 or above");
        }
        this.cost = new LineCost(costModel, msPerCharacter);
        this.wordCharacters = wordCharacters;
    }

    @Override
    protected void handle(Tuple tuple) {
        Line line = Line.of(tuple);
        cost.spend(line);
        int length = line.text().length();
        for (int begin = 0, place = 0; begin < length; begin += wordCharacters, place++) {
            String word = line.text().substring(begin, Math.min(begin + wordCharacters, length));
            int id = (line.id() + WORD_STEP * place) % LogLines.IDS;
            emit(tuple, new Line(word, id, place, line.sourceMachine(), line.dueMs()).values());
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
