"""A flow that fills Java's heap beside another one, in a process of its own, since other tests share theirs.

python -m tests.spark.flows.hungry FOLDER
"""

import sys
from pathlib import Path

from ingest.job import spark_session
from tests.support.flows import OneFlow, at, running, until, words

EACH = "SELECT at, upper(word) word FROM words"
HUNGRY = EACH.replace("upper(word)", "if(word = 'bad', right(repeat(word, 600000000), 3), word)")
"""Twice the heap, for one row."""


def main():
    folder = Path(sys.argv[1])
    flow = OneFlow(None, folder / "hungry", HUNGRY, trigger="1 second")
    other = OneFlow(None, folder / "other", EACH, trigger="1 second")
    spark = spark_session.create(
        "hungry",
        master="local[2]",
        driver_memory="900m",
        conf=spark_session.settings(flow.pipeline),
        log=folder / "spark.log",
    )
    flow.spark = other.spark = spark
    flow.put(words((at(1), "bad")))
    (run, thread), (beside, its) = running(flow), running(other)
    until(lambda: run.status.state == "failed")
    assert "OutOfMemoryError" in run.status.error, run.status.error
    for number in range(3):
        other.put(words((at(number), "owl")))
    until(lambda: beside.status.batch == 2)
    assert run.status.batch < 0, "it cannot be done in this heap"
    flow.change(EACH, trigger="1 second")
    until(lambda: run.status.batch == 0)
    for one, its_thread in ((run, thread), (beside, its)):
        one.stop.set()
        its_thread.join()
    assert [row["word"] for row in flow.rows()] == ["BAD"]
    assert [row["word"] for row in other.rows()] == ["OWL"] * 3
    print("both are equal")


if __name__ == "__main__":
    main()
