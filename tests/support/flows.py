"""A flow over a folder of files, run as `ingest flow run --once` runs it."""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_runs import FlowRun
from ingest.testing.lake import pipeline_at

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def at(minute, second=0):
    """A moment after noon."""
    return NOON + timedelta(minutes=minute, seconds=second)


def words(*pairs):
    """Rows of `at timestamp, word string`."""
    return [{"at": moment.isoformat(), "word": word} for moment, word in pairs]


WORDS = {
    "files": "words",
    "columns": "at timestamp, word string",
    "event_time": "at",
    "watermark": "10 minutes",
    "at_once": 1,
}


def place(written, name, number):
    """A file, at once, which Spark takes for newer than those of lower numbers: it goes by when files were changed."""
    os.utime(written, (1_700_000_000 + number, 1_700_000_000 + number))
    written.rename(name)


class OneFlow:
    """One flow `f` in a lake below `folder`, of the words in `folder/words` if nothing else is said."""

    connections = {}  # noqa: RUF012 (replaced, never changed)

    def __init__(self, spark, folder, function, **settings):
        self.spark, self.folder = spark, Path(folder)
        self.source = self.folder / "words"
        self.source.mkdir(parents=True, exist_ok=True)
        self.said, self._puts = [], len(list(self.source.iterdir()))
        self.change(function, **settings)

    def change(self, function, **settings):
        """Another function, or settings, from the next run on."""
        path = self.folder / ("f.sql" if function.lstrip().upper().startswith("SELECT") else "f.py")
        path.write_text(function)
        kind = {"sql": str(path)} if path.suffix == ".sql" else {"python": f"{path}:flow"}
        words = {**WORDS, "files": str(self.source), **settings.pop("words", {})}
        self.connections = settings.pop("connections", self.connections)
        more = {"connections": self.connections}
        said = {"inputs": {"words": words}, "sinks": [{"delta": "out"}], **kind, **settings}
        self.pipeline = pipeline_at(self.folder / "lake", flows={"f": said}, **more)

    def put(self, rows):
        """A file more; each is a batch."""
        text = "\n".join(json.dumps(row) for row in rows)
        self._puts += 1
        (self.source / f".{self._puts}").write_text(text)
        place(self.source / f".{self._puts}", self.source / f"{self._puts:05}.json", self._puts)

    def run(self):
        """Up to where its inputs end."""
        run = FlowRun(self.spark, self.pipeline, "f", self.said.append, threading.Event())
        run.once()
        return run.status

    @property
    def kept(self):
        return FlowFolder(self.pipeline, "f")

    def rows(self, name="out"):
        """Of a sink."""
        frame = self.spark.read.format("delta").load(str(self.folder / "lake" / name))
        return [row.asDict(recursive=True) for row in frame.collect()]

    def late(self):
        path = self.kept.late
        if not (Path(path) / "_delta_log").exists():
            return []
        frame = self.spark.read.format("delta").load(path)
        return [row.asDict(recursive=True) for row in frame.collect()]


def running(flow):
    """In a thread, as beside the mirrors."""
    run = FlowRun(flow.spark, flow.pipeline, "f", flow.said.append, threading.Event())
    thread = threading.Thread(target=run.until_stopped)
    thread.start()
    return run, thread


def until(what):
    for _ in range(600):
        if what():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it did not come to that within a minute")


def counted(rows):
    """Windows of words, counted: (start, word) to count."""
    return {(row["window"]["start"], row["word"]): row["count"] for row in rows}


def windows_of(moment, length, slide):
    """Starts, in seconds since 1970, of the windows that a moment (seconds, too) is in."""
    start = moment - moment % slide
    while start > moment - length:
        yield int(start)
        start -= slide


def batches(checkpoint):
    """By a flow's checkpoint: of each batch its number, the watermark (ms) that the batch before has left, and the files that it took."""
    taken = {}
    for one in sorted((checkpoint / "sources" / "0").iterdir()):
        if one.name.split(".")[0].isdigit():
            for line in one.read_text().splitlines()[1:]:
                said = json.loads(line)
                taken.setdefault(said["batchId"], set()).add(Path(said["path"]).name)
    watermark, last = 0, -1
    numbers = sorted(
        int(one.name) for one in (checkpoint / "offsets").iterdir() if one.name.isdigit()
    )
    for number in numbers:
        _, about, offset = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        reached = json.loads(offset)["logOffset"]
        files = set().union(*(taken.get(n, set()) for n in range(last + 1, reached + 1)))
        yield number, watermark, sorted(files)
        watermark, last = json.loads(about)["batchWatermarkMs"], reached


def dying(place, times=1):
    """What raises there, so often. A failure, since nothing else comes back from Spark's thread."""
    left = [times]

    def reached(name, batch, detail=""):
        if name == place and left[0]:
            left[0] -= 1
            raise OSError(f"it dies at {place}")

    return reached
