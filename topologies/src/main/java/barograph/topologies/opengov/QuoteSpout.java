package barograph.topologies.opengov;

import barograph.topologies.Line;
import barograph.topologies.PacedSpout;
import barograph.topologies.opengov.PublicRecords.Quote;
import java.util.function.LongFunction;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** A source of what shares of companies cost, each task of the companies whose symbols belong to it. */
public final class QuoteSpout extends PacedSpout {
    private final long seed;
    private final int companies;
    private final double skew;
    private final int surgeDays;
    private final DayClock days;
    private final String file;
    private transient LongFunction<Quote> quotes;

    /** {@code surgeDays}: between two jumps of a company's price. {@code dayS}: length of a day. {@code file}: records; empty: drawn. */
    public QuoteSpout(
        double ratePerSecond, long seed, boolean unthrottled, String onRestart,
        int companies, double skew, int surgeDays, double dayS, String file) {
        super(ratePerSecond, unthrottled, onRestart);
        this.seed = seed;
        this.companies = companies;
        this.skew = skew;
        this.surgeDays = surgeDays;
        this.days = new DayClock(dayS);
        this.file = file;
    }

    @Override
    protected void begin(TopologyContext context) {
        int index = context.getThisTaskIndex();
        int tasks = tasks(context);
        quotes = file.isEmpty()
            ? new PublicRecords(seed, companies).quotes(index, tasks, skew, surgeDays)
            : RecordsFile.of(file).quotes(index, tasks);
    }

    @Override
    protected Values next(double dueMs, String machine) {
        long day = days.at(dueMs);
        Quote quote = quotes.apply(day);
        return new Values(quote.symbol(), quote.company(), day, quote.price(), machine, dueMs);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("symbol", "company", "day", "price", Line.SOURCE_MACHINE, Line.DUE_MS));
    }
}
