"""A flow that fills Java's heap beside another one, in a process of its own, since other tests share theirs.

python -m tests.spark.flows.hungry FOLDER
"""

import sys
import threading
import time
from pathlib import Path

from ingest.flows.flow_runs import FlowRun
from ingest.job import spark_session
from tests.support.flows import OneFlow, at, words

EACH = "SELECT at, upper(word) word FROM words"
HUNGRY = EACH.replace("upper(word)", "if(word = 'bad', right(repeat(word, 600000000), 3), word)")
"""Twice the heap, for one row."""


def until(what):
    for _ in range(600):
        if what():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that within a minute")


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
    runs = [
        FlowRun(spark, one.pipeline, "f", one.said.append, threading.Event())
        for one in (flow, other)
    ]
    threads = [threading.Thread(target=one.until_stopped) for one in runs]
    flow.put(words((at(1), "bad")))
    for thread in threads:
        thread.start()
    until(lambda: runs[0].status.state == "failed")
    assert "OutOfMemoryError" in runs[0].status.error, runs[0].status.error
    for number in range(3):
        other.put(words((at(number), "owl")))
    until(lambda: runs[1].status.batch == 2)
    assert runs[0].status.batch < 0, "it cannot be done in this heap"
    flow.change(EACH, trigger="1 second")
    until(lambda: runs[0].status.batch == 0)
    for run, thread in zip(runs, threads, strict=True):
        run.stop.set()
        thread.join()
    assert [row["word"] for row in flow.rows()] == ["BAD"]
    assert [row["word"] for row in other.rows()] == ["OWL"] * 3
    print("both are equal")


if __name__ == "__main__":
    main()
