package barograph.topologies;

import java.util.SplittableRandom;

/**
 * Log lines of random length, 6 to 120 characters, 40.25 on average: the lengths of the lines that the authors of Stela fed
 * their topologies with. 70 % are short (6–40, mean 23), 30 % long (41–120, mean 80.5), each uniformly: the mean is exact.
 */
final class LogLines {
    static final int SHORTEST = 6;
    static final int LONGEST = 120;
    /** How many machines write them: enough that a grouping by id spreads evenly over any number of tasks. */
    static final int IDS = 1024;
    private static final int LONGEST_SHORT = 40;
    private static final double SHORT_SHARE = 0.7;
    private static final String LINE =
        "2026-01-01T00:00:00Z m1 httpd[4711]: 10.0.0.1 GET /storm/centre?page=17 HTTP/1.1 200 5120 8ms agent=barograph ref=/index";
    private static final String[] BY_LENGTH = new String[LONGEST + 1];

    static {
        for (int length = SHORTEST; length <= LONGEST; length++) {
            BY_LENGTH[length] = LINE.substring(0, length);
        }
    }

    private final SplittableRandom random;
    private final SplittableRandom ids;
    private int count;

    LogLines(long seed, int task) {
        this.random = random(seed, task);
        this.ids = random(~seed, task); // of its own, so that the lengths of a seed are the same whatever else a line has
    }

    /** Tasks of one seed draw different numbers, and the same ones in every run. */
    static SplittableRandom random(long seed, int task) {
        return new SplittableRandom(seed * 1_000_003L + task);
    }

    /** {@code machine}: where the source's task runs. */
    Line next(double dueMs, String machine) {
        return new Line(text(), ids.nextInt(IDS), count++, machine, dueMs);
    }

    private String text() {
        boolean isShort = random.nextDouble() < SHORT_SHARE;
        return BY_LENGTH[isShort ? random.nextInt(SHORTEST, LONGEST_SHORT + 1) : random.nextInt(LONGEST_SHORT + 1, LONGEST + 1)];
    }
}
