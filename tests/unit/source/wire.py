"""Requests on a wire that a test holds both ends of, and what the connector says there."""

import time

from ingest.config.pipeline_file import parse
from ingest.model.position import Position
from ingest.source import resync
from ingest.source.resync import Requests
from ingest.source.resync_request import Request

INITIAL = "Initial Snapshot"
FILE = "(another binlog file)"


class Wire(Requests):
    """Requests whose Kafka is two lists: what was sent, and what the connector says."""

    def __init__(self, pipeline):
        super().__init__(pipeline)
        self.dropped, self.said = set(), []
        self.say = self.absent.say = self.said.append
        self.absent.looked_up = lambda tables: self.dropped & set(tables)
        self.sent: list[str] = []
        self.notifications: list[dict] = []
        self.offset = 0

    def send(self, asked):
        if asked:
            self.sent.append(" ".join(one.table for one in asked))
        self._sent.update({one.id: resync.time.monotonic() for one in asked})

    def _rotate_log(self):
        self.sent.append("(another binlog file)")

    def _read(self):
        while self.notifications:
            self._said.take(self.notifications.pop(0), self.offset, resync.time.monotonic())
            self.offset += 1


def said(kind, id_, table="", status="SUCCEEDED", by="Incremental Snapshot"):
    more = {"scanned_collection": table, "status": status} if table else {}
    return {
        "aggregate_type": by,
        "type": kind,
        "id": id_,
        "additional_data": more,
    }


def pipeline_of_d(lake):
    """Which takes all of the database `d`."""
    return parse(f"""
name: p
source: {{mysql: "mysql://u@h", password: {{env: X}}, tables: ["d.*"]}}
kafka: {{bootstrap_servers: "k:1"}}
connect: {{url: "http://c:1"}}
lake: {{path: {lake}}}
""")


def complete(wire):
    return [one.table for one in wire.open() if wire.is_complete(one)]


def blocking_one(wire, name="c", heard=0):
    found = Request(
        f"resync-{name}", f"d.{name}", "BLOCKING", Position(0, 1, 9), heard=heard, sent=time.time()
    )
    wire.add(found)
    return found
