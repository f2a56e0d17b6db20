"""What Spark's streaming does not do, and where: the table of docs/streaming.md, asked of Spark."""

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tests.spark.flows.test_modes import MODES, joined, line, taken

PAGE = Path(__file__).parents[3] / "docs" / "streaming.md"


def outer(s, watermark=True, kind="left_outer"):
    left, right = s(watermark).toDF("at", "word"), s(watermark).toDF("at2", "word2")
    same = left.word == right.word2
    if watermark:
        same = same & (left.at <= right.at2 + F.expr("INTERVAL 1 HOUR")) & (left.at >= right.at2)
    return left.join(right, same, kind)


def with_table(s, kind):
    left = s(False)
    return left.join(left.sparkSession.createDataFrame([("a",)], "word string"), "word", kind)


QUERIES = {
    "`GROUP BY` over another one, of windows with a watermark": lambda s: (
        s().groupBy(F.window("at", "1 hour")).count().groupBy(F.window("window", "2 hours")).count()
    ),
    "the same without a watermark": lambda s: (
        s(False).groupBy("word").count().groupBy("count").count()
    ),
    "`LIMIT`": lambda s: s(False).limit(3),
    "`DISTINCT`": lambda s: s(False).select("word").distinct(),
    "`count(DISTINCT …)` of a group": lambda s: s(False).groupBy("word").agg(F.countDistinct("at")),
    "`ORDER BY`": lambda s: s(False).orderBy("word"),
    "`ORDER BY` behind a `GROUP BY`": lambda s: s(False).groupBy("word").count().orderBy("word"),
    "an inner join of two streams within an hour": joined,
    "a left join of two streams within an hour, with watermarks": outer,
    "a left join of two streams without them": lambda s: outer(s, watermark=False),
    "a full join of two streams within an hour, with watermarks": lambda s: outer(
        s, kind="full_outer"
    ),
    "a left join with a table": lambda s: with_table(s, "left_outer"),
    "a right join with a table": lambda s: with_table(s, "right_outer"),
    "a window function of SQL (`row_number() OVER …`)": lambda s: s(False).selectExpr(
        "word", "row_number() OVER (PARTITION BY word ORDER BY at) n"
    ),
}


def test_what_streaming_does_not_do_is_as_the_page_says(stream, tmp_path):
    found = []
    for n, (name, made) in enumerate(QUERIES.items()):
        modes = {mode: taken(made(stream), mode, tmp_path / f"{n}-{mode}") for mode in MODES}
        found.append(line(name, modes))
    said = (
        PAGE.read_text(encoding="utf-8").partition("## What it does not do")[2].partition("\n#")[0]
    )
    rows = [one for one in said.splitlines() if re.match(r"\| .+ \|( (yes|no) \|){3}", one)]
    assert found == [re.match(r"\| [^|]+ \|( (yes|no) \|){3}", one)[0] for one in rows], "\n".join(
        found
    )


@pytest.mark.parametrize("act", ["count", "show", "collect"])
def test_a_stream_has_no_rows_to_count_show_or_collect(stream, act):
    with pytest.raises(AnalysisException, match=r"writeStream\.start"):
        getattr(stream(), act)()
