"""The batch's ratings and lists are those of the stream (RecommendTest.java reads the same file)."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analysis.recommendation import RatingLaw, fans, lists, pairs, ratings

CASES = json.loads((Path(__file__).parent / "ratings.json").read_text())
pytestmark = pytest.mark.spark


def test_ratings_are_those_of_java(spark: SparkSession) -> None:
    case = CASES["ratings"]
    law = RatingLaw(*case["law"])
    for number, *expected in case["number, user, movie, stars"]:
        (row,) = ratings(spark.range(number, number + 1), law).collect()
        assert list(row) == [*expected, pytest.approx(number / 200)], number


def test_lists_are_those_of_java(spark: SparkSession) -> None:
    case = CASES["lists"]
    law = RatingLaw(*case["law"])
    rows = ratings(spark.range(case["number"]), law)
    found = defaultdict(list)
    for row in lists(pairs(fans(rows), case["history_size"]), case["list_size"]).orderBy("movie", "place").collect():
        found[str(row["movie"])].append([row["other"], row["fans"]])
    assert found == case["of"]
