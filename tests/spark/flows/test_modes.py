"""Which output mode goes with which query and which sink: the tables of docs/flows.md, asked of Spark."""

import re
from pathlib import Path

from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException
from pyspark.sql import functions as F

PAGE = Path(__file__).parents[3] / "docs" / "flows.md"
MODES = ("append", "update", "complete")


def lines(heading):
    """The rows of a table of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(heading)[2].partition("\n#")[0]
    return [one for one in text.splitlines() if re.fullmatch(r"\| .+ \|( (yes|no) \|){3}", one)]


def line(name, found):
    return f"| {name} | {' | '.join(found[mode] for mode in MODES)} |"


def joined(stream):
    left, right = stream().toDF("at", "word"), stream().toDF("at2", "word2")
    hour = F.expr("INTERVAL 1 HOUR")
    same = left.word == right.word2
    return left.join(right, same & (left.at >= right.at2 - hour) & (left.at <= right.at2 + hour))


QUERIES = {
    "no state (`SELECT`, a filter, a join with a table)": lambda s: s(False),
    "`GROUP BY` without a watermark": lambda s: s(False).groupBy("word").count(),
    "`GROUP BY window(…)` with one": lambda s: s().groupBy(F.window("at", "1 hour")).count(),
    "`GROUP BY session_window(…)`": lambda s: (
        s().groupBy(F.session_window("at", "1 hour"), "word").count()
    ),
    "`dropDuplicates`": lambda s: s().dropDuplicates(["at", "word"]),
    "a join of two streams": joined,
    "a second `GROUP BY window` over the first": lambda s: (
        s().groupBy(F.window("at", "1 hour")).count().groupBy(F.window("window", "2 hours")).count()
    ),
    "`DISTINCT`": lambda s: s(False).select("word").distinct(),
    "`ORDER BY` behind a `GROUP BY`": lambda s: s(False).groupBy("word").count().orderBy("word"),
    "`LIMIT`": lambda s: s(False).limit(3),
}
SINKS = {
    "Spark's own Delta sink": ("delta", True),
    "Spark's own sink of files": ("parquet", True),
    "memory": ("memory", False),
    "the console": ("console", False),
    "`foreachBatch`, which flows use": ("foreachBatch", False),
}


def taken(query, mode, folder, sink="foreachBatch", path=None):
    """Whether Spark runs it, on nothing."""
    writer = query.writeStream.outputMode(mode).option("checkpointLocation", str(folder))
    if sink == "foreachBatch":
        writer = writer.foreachBatch(lambda rows, _: rows.count() and None)
    else:
        writer = writer.format(sink)
        writer = writer.option("path", str(path)) if path else writer.queryName(folder.name)
    try:
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination(60)
    except (AnalysisException, StreamingQueryException, IllegalArgumentException):
        return "no"
    return "yes"


def test_which_mode_goes_with_which_query(stream, tmp_path):
    found = []
    for n, (name, made) in enumerate(QUERIES.items()):
        modes = {mode: taken(made(stream), mode, tmp_path / f"{n}-{mode}") for mode in MODES}
        found.append(line(name, modes))
    assert found == lines("### Which mode goes with which query"), "\n".join(found)


def test_which_mode_goes_to_which_sink(stream, tmp_path):
    found = []
    for n, (name, (sink, needs_path)) in enumerate(SINKS.items()):
        modes = {}
        for mode in MODES:
            query = stream().groupBy(F.window("at", "1 hour")).count()
            path = tmp_path / f"out{n}_{mode}" if needs_path else None
            modes[mode] = taken(query, mode, tmp_path / f"s{n}_{mode}", sink, path)
        found.append(line(name, modes))
    assert found == lines("### Which mode goes to which sink"), "\n".join(found)
