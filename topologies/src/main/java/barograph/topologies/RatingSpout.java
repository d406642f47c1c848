package barograph.topologies;

import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Values;

/**
 * A source of ratings as lines: the movie is the text, the user the id, the stars the count. Task i of n has ratings i, i + n, i + 2n, …
 * of the seed; in a worker that was restarted it begins with them anew.
 */
public final class RatingSpout extends PacedSpout {
    private final Ratings ratings;
    private transient long number;
    private transient int step;

    /** What follows {@code onRestart} is the law of {@link Ratings}. */
    public RatingSpout(
        double ratePerSecond, long seed, boolean unthrottled, String onRestart, int users, double userRatio, int movies, double movieRatio,
        double fanShare, long ratingsPerDay, int joinDays) {
        super(ratePerSecond, unthrottled, onRestart);
        this.ratings = new Ratings(seed, users, userRatio, movies, movieRatio, fanShare, ratingsPerDay, joinDays);
    }

    @Override
    protected void begin(TopologyContext context) {
        begin(context.getThisTaskIndex(), tasks(context));
    }

    void begin(int place, int tasks) {
        number = place;
        step = tasks;
    }

    Line rating(double dueMs, String machine) {
        Ratings.Rating rating = ratings.rating(number);
        number += step;
        return new Line(SimilarBolt.name(rating.movie()), rating.user(), rating.stars(), machine, dueMs);
    }

    @Override
    protected Values next(double dueMs, String machine) {
        return rating(dueMs, machine).values();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Line.FIELDS);
    }
}
