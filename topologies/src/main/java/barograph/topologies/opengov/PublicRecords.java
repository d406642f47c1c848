package barograph.topologies.opengov;

import barograph.topologies.Zipf;
import java.util.SplittableRandom;
import java.util.function.IntFunction;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.stream.IntStream;

/**
 * What the sources of opengov emit, drawn from a seed: what shares of companies cost, and contracts that contractors are awarded.
 *
 * <p>The price of a company's shares jumps every so many days, up by a factor of three and down again, each company's on days of its
 * own; in between it stays within 5 %. How often a company is quoted, and a contractor awarded a contract, falls with its number to
 * the power of the skew.
 */
final class PublicRecords {
    private static final double JUMP = 3;
    private static final double LOWEST_PRICE = 10;
    private static final int PRICES = 90;
    private static final long DAYS_APART = 37;
    private static final double CENTS = 100;
    private static final double LEAST_AMOUNT = 10_000;
    private static final double DECADES = 3;

    record Quote(String symbol, String company, double price) {
    }

    record Contract(String contractor, double amount) {
    }

    private final long seed;
    private final int companies;

    PublicRecords(long seed, int companies) {
        this.seed = seed;
        this.companies = companies;
    }

    /** Quotes of the companies that belong to that one of so many tasks, by the day; endless. */
    LongFunction<Quote> quotes(int index, int tasks, double skew, int surgeDays) {
        Zipf draw = draw(Companies::symbol, companies, index, tasks, skew);
        SplittableRandom random = random(seed, index);
        return day -> {
            int number = draw.next(random);
            double price = price(number, day, surgeDays) * (0.95 + 0.1 * random.nextDouble());
            return new Quote(Companies.symbol(number), Companies.company(number), Math.round(price * CENTS) / CENTS);
        };
    }

    private static SplittableRandom random(long seed, int index) {
        return new SplittableRandom(seed * 1_000_003L + index);
    }

    private double price(int number, long day, int surgeDays) {
        long jumps = Math.floorDiv(day + Math.floorMod(number * DAYS_APART + seed, surgeDays), surgeDays);
        double base = LOWEST_PRICE + number % PRICES;
        return Math.floorMod(jumps, 2) == 0 ? base : base * JUMP;
    }

    /** Contracts of the contractors that belong to that one of so many tasks; endless. */
    Supplier<Contract> contracts(int index, int tasks, int contractorsPerCompany, double skew) {
        Zipf draw = draw(Companies::contractor, companies * contractorsPerCompany, index, tasks, skew);
        SplittableRandom random = random(~seed, index);
        return () -> {
            String contractor = Companies.contractor(draw.next(random));
            return new Contract(contractor, Math.round(LEAST_AMOUNT * Math.pow(10, DECADES * random.nextDouble())));
        };
    }

    /** Numbers of those whose key belongs to one task. */
    private static Zipf draw(IntFunction<String> key, int count, int index, int tasks, double skew) {
        int[] mine = IntStream.range(0, count).filter(number -> Companies.isOf(key.apply(number), index, tasks)).toArray();
        if (mine.length == 0) {
            throw new IllegalArgumentException("companies is too few: none of " + count + " keys belongs to task " + index + " of "
                + tasks + "; give more companies or a lower number of sources");
        }
        return new Zipf(mine, skew);
    }
}
