"""Downloads: nobody waits in silence, or without end, and what a killed one has left goes."""

import threading
import time

import psutil
import pytest

from ingest.local import artefacts
from ingest.local.artefacts import Artefact
from ingest.local.one_at_a_time import only_one
from ingest.model.errors import IngestError

WANTED = Artefact("org.example", "thing", "1", "0" * 64, 100)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty one; the resolver is a program that brings nothing, and ends when it is told to."""
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    java.chmod(0o755)
    monkeypatch.setenv("INGEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(artefacts, "java_binary", lambda: str(java))
    monkeypatch.setattr(artefacts, "_NOTHING_COMES", 2.0)
    return tmp_path / "cache"


def test_a_download_that_brings_nothing_ends_with_a_sentence_and_is_not_left_behind(
    cache, tmp_path
):
    with pytest.raises(IngestError, match=r"fetched from Maven Central \(nothing came") as ended:
        artefacts.have([WANTED])
    assert ended.value.code == "E-ARTEFACT-ABSENT"
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert [one.name for one in cache.iterdir()] == ["fetch.lock"]


def test_what_a_download_that_was_killed_has_left_goes_with_the_next_one(cache):
    (cache / "fetch-abc" / "ivy").mkdir(parents=True)
    (cache / "fetch-abc" / "ivy" / "half.part").touch()
    with pytest.raises(IngestError):
        artefacts.have([WANTED])
    assert not (cache / "fetch-abc").exists()


def test_who_waits_for_another_says_so_and_goes_on_when_it_is_done(tmp_path):
    said, done = [], []

    def other():
        with only_one(tmp_path / "thing", said.append):
            done.append(time.monotonic())

    with only_one(tmp_path / "thing", said.append):
        thread = threading.Thread(target=other)
        thread.start()
        until = time.monotonic() + 30
        while not said and time.monotonic() < until:
            time.sleep(0.01)
        assert done == []
    thread.join(30)
    assert len(done) == len(said) == 1
    assert str(tmp_path / "thing.lock") in said[0]
