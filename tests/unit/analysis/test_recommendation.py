"""Movie recommendation as a batch: lists against counting by hand, the law of ratings, and the thesis's costs."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from analysis import recommendation
from analysis.recommendation import Recommendation, daily_cost_usd, fans, lists, out_of_range, pairs, ratings_in
from topologies.errors import BadParameter, UnknownParameter


@pytest.mark.spark
def test_lists_of_a_file_are_those_that_counting_gives(spark: SparkSession, tmp_path: Path) -> None:
    """Some rate a movie again, higher or lower: who was a fan once is a fan."""
    random = Random(3)
    rows = [(random.randint(1, 25), random.randint(1, 20), random.randint(1, 5)) for _ in range(900)]
    file = tmp_path / "ratings.csv"
    file.write_text("".join(f"{u},{m},{r},2005-01-{1 + place // 30:02}\n" for place, (u, m, r) in enumerate(rows)))
    liked = {user: {m for u, m, r in rows if u == user and r > 3} for user, _, _ in rows}
    mutual: Counter[tuple[int, int]] = Counter()
    for movies in liked.values():
        mutual.update(pair for one, other in combinations(movies, 2) for pair in ((one, other), (other, one)))
    expected = {}
    for movie in {one for one, _ in mutual}:
        others = sorted((-number, other) for (one, other), number in mutual.items() if one == movie)
        expected[movie] = [(other, -number) for number, other in others[:5]]
    found = lists(pairs(fans(ratings_in(spark, str(file))), history_size=20), list_size=5).orderBy("movie", "place")
    made: dict[int, list[tuple[int, int]]] = {}
    for row in found.collect():
        made.setdefault(row["movie"], []).append((row["other"], row["fans"]))
    assert made == expected and len(made) == 20


@pytest.mark.spark
def test_ratings_out_of_range_are_counted_and_one_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text("1,2,5,2005-01-01\n1,3,6,2005-01-01\n0,3,5,2005-01-01\n1,3,5,never\n1,3,\n")
    wrong, one = out_of_range(ratings_in(spark, str(file)))
    assert wrong == 4 and one is not None and one["rating"] == 6
    file.write_text("1,2,5,2005-01-01\n")
    assert out_of_range(ratings_in(spark, str(file))) == (0, None)


@pytest.mark.spark
def test_the_law_gives_shares_as_its_ratios_say(spark: SparkSession) -> None:
    """Of 60,000 ratings: shares within four standard deviations, where those of single users are added up."""
    parameters = {"users": 600, "movies": 500, "join_days": 3, "ratings_per_day": 20_000}
    law = Recommendation.of(parameters).law
    rows = recommendation.ratings(spark.range(60_000), law).withColumn("day", f.floor(f.col("t_s") / 86_400)).cache()
    counts = {
        what: sorted((row["count"] for row in rows.groupBy(what).count().collect()), reverse=True)
        for what in ("movie", "rating")
    }
    top = sum(counts["movie"][: round(500 * law.movie_ratio)])
    assert top == pytest.approx(60_000 * (1 - law.movie_ratio), abs=4 * 120), "84 % of ratings for 16 % of the movies"
    fans_of_all = rows.where("rating > 3").count()
    assert fans_of_all == pytest.approx(60_000 * law.fan_share, abs=4 * 122) and len(counts["rating"]) == 5
    users = [
        {row["user"] for row in rows.where(f.col("day") == day).select("user").distinct().collect()}
        for day in (0, 1, 2)
    ]
    assert [max(each) for each in users] == [200, 400, 600] and min(users[2]) < 50
    first = sorted((row["count"] for row in rows.where("day = 0").groupBy("user").count().collect()), reverse=True)
    assert sum(first[: round(200 * law.user_ratio)]) == pytest.approx(20_000 * (1 - law.user_ratio), abs=4 * 63)
    rows.unpersist()


@pytest.mark.spark
@pytest.mark.parametrize("ratings_per_day", [161, 163, 300_000])
def test_a_day_begins_with_its_first_rating(spark: SparkSession, ratings_per_day: int) -> None:
    law = replace(Recommendation.of({"users": 10, "movies": 10}).law, ratings_per_day=ratings_per_day)
    rows = recommendation.ratings(spark.range(7 * ratings_per_day), law)
    counts = [rows.where(f.col("t_s") < days * recommendation.DAY_S).count() for days in range(1, 7)]
    assert counts == [days * ratings_per_day for days in range(1, 7)]


def test_parameters_are_those_of_the_topology() -> None:
    whole = Recommendation.of({})
    assert (whole.law.users, whole.law.movies, whole.law.ratings_per_day) == (480_189, 17_770, 200 * 86_400)
    part = Recommendation.of({"history_size": 7, "seed": 5}, scale=0.001)
    assert (part.law.users, part.law.movies, part.law.ratings_per_day) == (480, 17_770, 17_280)
    assert (part.history_size, part.list_size, part.law.seed) == (7, 10, 5)
    for given, kind in (
        ({"user_ratio": 0.6}, BadParameter),
        ({"history_size": 0}, BadParameter),
        ({"stars": 5}, UnknownParameter),
    ):
        with pytest.raises(kind):
            Recommendation.of(given)


def test_a_daily_cost_is_that_of_the_thesis() -> None:
    """Table 3, of the times of table 2: eleven instances of 0.08 USD an hour."""
    table = {
        24: [0.88, 2.64, 6.16],
        3: [7.04, 21.12, None],
        1: [21.12, None, None],
    }
    for every_h, costs in table.items():
        for minutes, cost in zip((56, 177, 407), costs, strict=True):
            found = daily_cost_usd(minutes * 60, every_h, 11, 0.08)
            assert found == (None if cost is None else pytest.approx(cost))
    assert daily_cost_usd(600, 0.5, 11, 0.08) == pytest.approx(24 * 11 * 0.08), "no more than all day"
    assert daily_cost_usd(3700, 1.5, 1, 1.0) == 24
