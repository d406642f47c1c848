"""Movie recommendation as a batch (DT 5.1, 5.2): ratings by a law, lists of similar movies in three rounds, and what it
costs a day to make them anew.

Two movies are as similar as they have mutual fans: users who rated both higher than three stars. A movie pairs with
the `history_size` movies that the user became a fan of before it. DT has no such limit: without one a user of 17,653
ratings makes 156 million pairs. The stream (`topologies/flux/recommend.yaml`) makes the same lists of the same ratings.

The law: ratings come evenly over time. Users join in equal groups, one a day; all that have joined rate alike. Within a
group, and among movies, shares follow the Lorenz curve p / (p + k (1 - p)) (Rohde 2009), with k such that the share
`ratio` of users, the most active ones, give 1 - `ratio` of the ratings: k = ((1 - ratio) / ratio)². The two ratios and
the share of fans are those of the Netflix Prize's data set (KONECT, "netflix": balanced inequality ratios, negativity).
How users join is ours: DT orders the data set by date. Rating n of a seed is a pure function of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import yaml

from topologies import catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

FAN = 4  # stars from which on a user is a fan
DAY_S = 86_400.0
SCHEMA = "user int, movie int, rating int, date date"  # a line of a file of ratings, as DT merges them
# On disk at the most: of a rating, as it is read and as a fan; of a pair of movies, as it is counted, and as Spark
# exchanges it in both rounds.
RATING_BYTES, PAIR_BYTES = 40, 40
ROUNDS = ("fans", "pairs", "lists")


@dataclass(frozen=True)
class RatingLaw:
    """The parameters of RatingSpout.java, in its order (docs/policies.md)."""

    seed: int
    users: int
    user_ratio: float
    movies: int
    movie_ratio: float
    fan_share: float
    ratings_per_day: int
    join_days: int


@dataclass(frozen=True)
class Recommendation:
    law: RatingLaw
    history_size: int
    list_size: int

    @staticmethod
    def of(parameters: Mapping[str, Any], scale: float = 1.0) -> Recommendation:
        """Return that of the topology with these parameters; `scale`: of its users, and ratings a day. Raises
        TopologyError for a value out of range."""
        flux = yaml.safe_load(catalogue.render("recommend", parameters))
        values = flux["config"][catalogue.PARAMETERS]
        scaled = {name: max(1, round(values[name] * scale)) for name in ("users", "ratings_per_day")}
        flux = yaml.safe_load(catalogue.render("recommend", {**parameters, **scaled}))
        spout, history, similar, *_ = (each["constructorArgs"] for each in (*flux["spouts"], *flux["bolts"]))
        return Recommendation(RatingLaw(spout[1], *spout[4:]), history[2], similar[2])


def ratings(numbers: DataFrame, law: RatingLaw) -> DataFrame:
    """Return the ratings of these numbers (`id`, from 0 on): `user`, `movie`, `rating`, `t_s` (from 0 on)."""
    from pyspark.sql import functions as f

    def drawn(what: int) -> Column:
        """Return a number from 0 to 1 for each rating (Ratings.java)."""
        words = f.lit(law.seed).cast("bigint"), f.col("id"), f.lit(what).cast("bigint")
        return f.shiftrightunsigned(f.xxhash64(*words), 11) * f.lit(2.0**-53)

    def place(what: int, ratio: float) -> Column:
        root = (1 - ratio) / ratio
        share, k = drawn(what), root * root
        return k * share / (1 + (k - 1) * share)

    joined = f.least(f.expr(f"id div {law.ratings_per_day}") + 1, f.lit(law.join_days))
    user = (f.floor(drawn(0) * joined) + place(1, law.user_ratio)) * (law.users / law.join_days)
    movie = place(2, law.movie_ratio) * law.movies
    fans, stars = law.fan_share, drawn(3)
    others = 1 - fans
    steps = (fans / 2, fans, fans + others / 3, fans + others * 2 / 3)
    rating = 5 - sum(((stars >= step).cast("int") for step in steps), f.lit(0))
    return numbers.select(
        f.least(1 + f.floor(user), f.lit(law.users)).cast("int").alias("user"),
        f.least(1 + f.floor(movie), f.lit(law.movies)).cast("int").alias("movie"),
        rating.alias("rating"),
        (f.col("id") * DAY_S / law.ratings_per_day).alias("t_s"),
    )


def ratings_in(spark: SparkSession, file: str) -> DataFrame:
    """Return the ratings of a CSV file (a path that Spark reads); what cannot be read of a line is null."""
    from pyspark.sql import functions as f

    lines = spark.read.csv(file, schema=SCHEMA, mode="PERMISSIVE")
    return lines.select("user", "movie", "rating", (f.unix_date("date") * DAY_S).alias("t_s"))


def out_of_range(ratings: DataFrame) -> tuple[int, dict[str, Any] | None]:
    """Return how many ratings are not from 1 to 5, or have no user, movie or time; and one of them."""
    from pyspark.sql import functions as f

    right = (f.col("user") >= 1) & (f.col("movie") >= 1) & f.col("rating").between(1, 5) & f.col("t_s").isNotNull()
    wrong = ratings.where(~f.coalesce(right, f.lit(False)))
    row = wrong.agg(f.count("*"), f.first(f.struct("user", "movie", "rating", "t_s"))).first()
    assert row is not None
    return row[0], row[1] and row[1].asDict()


def fans(ratings: DataFrame) -> DataFrame:
    """Round 1: `user`, `movie`, `t_s`: since when a user is a fan of a movie."""
    from pyspark.sql import functions as f

    return ratings.where(f.col("rating") >= FAN).groupBy("user", "movie").agg(f.min("t_s").alias("t_s"))


def pairs(fans: DataFrame, history_size: int) -> DataFrame:
    """Round 2: `movie`, `other` (of a higher number), `fans`: how many mutual ones two movies have."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy("user").orderBy("t_s", "movie").rowsBetween(-history_size, -1)
    histories = fans.select("movie", f.collect_list("movie").over(before).alias("history"))
    mutual = histories.select("movie", f.explode("history").alias("other"))
    ordered = mutual.select(f.least("movie", "other").alias("movie"), f.greatest("movie", "other").alias("other"))
    return ordered.groupBy("movie", "other").agg(f.count("*").alias("fans"))


def lists(pairs: DataFrame, list_size: int) -> DataFrame:
    """Round 3: `movie`, `place` (from 1 on), `other`, `fans`: the movies with the most mutual ones; of equal ones the
    lower number first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    both = pairs.unionByName(pairs.select(f.col("other").alias("movie"), f.col("movie").alias("other"), "fans"))
    place = f.row_number().over(Window.partitionBy("movie").orderBy(f.desc("fans"), "other"))
    return both.select("movie", place.alias("place"), "other", "fans").where(f.col("place") <= list_size)


def needed_bytes(recommendation: Recommendation, days: float, ratings: int | None = None) -> int:
    """Return the most that a batch has on disk: ratings, and what rounds leave and exchange if no pairs are alike."""
    number = days * recommendation.law.ratings_per_day if ratings is None else ratings
    of_pairs = 1.0 if ratings is not None else recommendation.law.fan_share
    return round(number * (RATING_BYTES + of_pairs * recommendation.history_size * PAIR_BYTES))


def daily_cost_usd(elapsed_s: float, every_h: float, machines: int, usd_per_hour: float) -> float | None:
    """Return the cost of running a batch each so many hours (DT table 3): machines are paid for whole hours, and
    at the most for the day's. None where it takes longer than that."""
    if elapsed_s > every_h * 3600:
        return None
    return min(24.0, 24 / every_h * ceil(elapsed_s / 3600)) * machines * usd_per_hour
