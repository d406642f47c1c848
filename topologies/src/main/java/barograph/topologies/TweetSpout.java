package barograph.topologies;

import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Values;

/** A source of lines that each end in a hashtag, whose topic is drawn by Zipf's law (Wu 2015, 6.4). */
public final class TweetSpout extends PacedSpout {
    private static final int MOST_TOPICS = 100_000;
    private static final int FIRST_HASHTAG = 1_000_000;

    private final long seed;
    private final int topics;
    private final double skew;
    private transient LogLines lines;
    private transient Zipf law;
    private transient SplittableRandom random;

    /** {@code topics}: how many there are; {@code skew}: exponent of the law. */
    public TweetSpout(double ratePerSecond, long seed, boolean unthrottled, String onRestart, int topics, double skew) {
        super(ratePerSecond, unthrottled, onRestart);
        if (topics < 1 || topics > MOST_TOPICS || !(skew >= 0)) {
            throw new IllegalArgumentException(
                "topics is " + topics + " and topic_skew " + skew + "; they must be from 1 to 100000, and 0 or above");
        }
        this.seed = seed;
        this.topics = topics;
        this.skew = skew;
    }

    /** Eight characters, whatever the topic. */
    static String hashtag(int topic) {
        return "#t" + Integer.toString(FIRST_HASHTAG + topic).substring(1);
    }

    @Override
    protected void begin(TopologyContext context) {
        begin(context.getThisTaskId());
    }

    void begin(int task) {
        lines = new LogLines(seed, task);
        law = new Zipf(IntStream.range(0, topics).toArray(), skew);
        random = LogLines.random(seed, -task); // of its own: texts are those of the seed whatever their topics
    }

    Line tweet(double dueMs, String machine) {
        Line line = lines.next(dueMs, machine);
        return line.withText(line.text() + " " + hashtag(law.next(random)));
    }

    @Override
    protected Values next(double dueMs, String machine) {
        return tweet(dueMs, machine).values();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
