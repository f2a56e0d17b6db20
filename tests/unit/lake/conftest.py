"""Leases that tests take, with beats of a tenth of a second."""

import threading

import pytest

from ingest.lake.files import lease as module
from ingest.lake.files.lease import Lease
from ingest.lake.files.storage import LocalFiles


@pytest.fixture
def quick_lease(monkeypatch):
    monkeypatch.setattr(module, "BEAT_EVERY", 0.1)
    monkeypatch.setattr(module, "EXPIRES_AFTER", 1.0)


@pytest.fixture
def make_lease(tmp_path):
    """Of one lake. ``written``: the newest term that its manifest names; ``said``: what takes the sentences."""
    made = []

    def lease(written=0, said=()):
        say = [].append if said == () else said.append
        made.append(Lease(LocalFiles(str(tmp_path)), say, written=lambda: written))
        return made[-1]

    yield lease
    for one in made:
        one._ended.set()


def acquire(lease, *, standby=False):
    return lease.acquire(standby=standby, stop=threading.Event())
