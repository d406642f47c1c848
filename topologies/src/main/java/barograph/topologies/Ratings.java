package barograph.topologies;

import java.io.Serializable;

/**
 * Ratings of movies: the same numbers, draw by draw, as in analysis/recommendation.py, which has the law and its source. Rating n of a
 * seed is a pure function of both.
 */
record Ratings(
    long seed, int users, double userRatio, int movies, double movieRatio, double fanShare, long ratingsPerDay, int joinDays)
    implements Serializable {
    /** Stars from which on a user is a fan. */
    static final int FAN = 4;

    record Rating(int user, int movie, int stars) {
    }

    Ratings {
        if (users < 1 || movies < 1 || ratingsPerDay < 1 || joinDays < 1) {
            throw new IllegalArgumentException("users is " + users + ", movies " + movies + ", ratings_per_day " + ratingsPerDay
                + " and join_days " + joinDays + "; they must be 1 or above");
        }
        if (!(userRatio > 0 && userRatio <= 0.5 && movieRatio > 0 && movieRatio <= 0.5 && fanShare >= 0 && fanShare <= 1)) {
            throw new IllegalArgumentException("user_ratio is " + userRatio + ", movie_ratio " + movieRatio + " and fan_share " + fanShare
                + "; the ratios must be above 0 and at most 0.5, the share from 0 to 1");
        }
    }

    Rating rating(long number) {
        long joined = Math.min(number / ratingsPerDay + 1, joinDays);
        double user = (Math.floor(drawn(number, 0) * joined) + place(drawn(number, 1), userRatio)) * ((double) users / joinDays);
        double movie = place(drawn(number, 2), movieRatio) * movies;
        return new Rating((int) Math.min(1 + (long) user, users), (int) Math.min(1 + (long) movie, movies), stars(drawn(number, 3)));
    }

    private int stars(double share) {
        double others = 1 - fanShare;
        int stars = 5;
        for (double step : new double[] {fanShare / 2, fanShare, fanShare + others / 3, fanShare + others * 2 / 3}) {
            stars -= share >= step ? 1 : 0;
        }
        return stars;
    }

    /** The place from 0 to 1, the least active or popular first, below which this share of the ratings lies. */
    private static double place(double share, double ratio) {
        double root = (1 - ratio) / ratio;
        double k = root * root;
        return k * share / (1 + (k - 1) * share);
    }

    private double drawn(long number, int what) {
        return (hash(what, hash(number, hash(seed, 42))) >>> 11) * 0x1p-53;
    }

    /** XXH64 of one long, as Spark's xxhash64 has it, which begins with 42. */
    static long hash(long value, long seed) {
        long hash = seed + 0x27D4EB2F165667C5L + 8;
        hash ^= Long.rotateLeft(value * 0xC2B2AE3D27D4EB4FL, 31) * 0x9E3779B185EBCA87L;
        hash = Long.rotateLeft(hash, 27) * 0x9E3779B185EBCA87L + 0x85EBCA77C2B2AE63L;
        hash = (hash ^ hash >>> 33) * 0xC2B2AE3D27D4EB4FL;
        hash = (hash ^ hash >>> 29) * 0x165667B19E3779F9L;
        return hash ^ hash >>> 32;
    }
}
