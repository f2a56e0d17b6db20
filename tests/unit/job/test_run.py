"""What a run does when something beside its query goes wrong."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from ingest.job.run import Run
from ingest.job.stream_guard import StreamGuard
from ingest.job.streaming import Streaming
from ingest.lake.files.lease import LeaseLostError
from ingest.model.errors import Exit, IngestError


def streaming(**parts):
    """What is not named is not touched."""
    nothing = SimpleNamespace()
    return Streaming(
        pipeline=nothing,
        spark=nothing,
        committer=parts.get("committer", nothing),
        supervisor=parts.get("supervisor", nothing),
        ahead=nothing,
        log=Path("log"),
        say=lambda _: None,
        report=lambda _: None,
        stop=threading.Event(),
    )


def test_a_server_that_is_away_for_a_moment_does_not_pass_for_a_wish_to_stop():
    stopped = []
    query = SimpleNamespace(
        awaitTermination=lambda _: False, isActive=True, stop=lambda: stopped.append(1)
    )

    def look() -> None:
        raise IngestError("E-CONNECT-AWAY", "Connect is away.", remedy="wait", may_pass=True)

    committer = SimpleNamespace(refuse_lost=lambda: None)
    run = streaming(committer=committer, supervisor=SimpleNamespace(look=look))
    with pytest.raises(IngestError, match="Connect is away"):
        run.watch(query, StreamGuard(run.stop.is_set), SimpleNamespace())
    assert stopped == [1]
    assert not run.stop.is_set(), "the run would end in silence, as if asked to"


def test_a_job_that_was_succeeded_decides_nothing_whatever_it_failed_by():
    def lost() -> None:
        raise LeaseLostError("process 7 on another machine")

    run = streaming(committer=SimpleNamespace(refuse_lost=lost))
    with pytest.raises(LeaseLostError):
        run._look(SimpleNamespace(), from_beginning=False)  # which has nothing to look at


def test_what_code_raises_of_itself_is_tried_once_more_and_told_with_its_file(
    tmp_path, monkeypatch
):
    said, tried = [], []
    run = Run(SimpleNamespace(), tmp_path / "spark.log", said.append, lambda _: None)

    def stream(*, from_beginning):
        tried.append(from_beginning)
        raise json.JSONDecodeError("Unterminated string", "{", 1)

    fails = streaming()
    monkeypatch.setattr(fails, "stream", stream)
    monkeypatch.setattr(run._stop, "wait", lambda _: None)
    with pytest.raises(IngestError, match="JSONDecodeError: Unterminated") as told:
        run._stream_until_done(fails, from_beginning=True)
    assert (told.value.code, told.value.exit_code) == ("E-BATCH-FAILED", Exit.FAILED)
    assert tried == [True, False], "what was begun from the beginning goes on from there"
    assert "Traceback" in (tmp_path / "spark.log").read_text(encoding="utf-8")
    assert "Traceback" not in "".join([*said, str(told.value)])
