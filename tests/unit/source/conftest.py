"""What tests of requests share."""

import time

import pytest

from ingest.model.position import Position
from ingest.source.resync_request import Request
from tests.unit.source.wire import Wire, pipeline_of_d


@pytest.fixture
def wire(tmp_path):
    found = Wire(pipeline_of_d(tmp_path))
    for name in "ab":
        found.add(
            Request(
                f"resync-{name}", f"d.{name}", "INCREMENTAL", Position(0, 1, 5), sent=time.time()
            )
        )
    return found
