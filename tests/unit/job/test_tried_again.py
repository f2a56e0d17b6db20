"""What may pass is tried again; the rest ends the run."""

import errno
import json
from types import SimpleNamespace

import pytest

from ingest.config.lake_settings import Lake
from ingest.job.run import Run
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.model.errors import Exit, IngestError
from tests.support.untouched_stream import streaming


def test_what_code_raises_of_itself_is_tried_once_more_and_told_with_its_file(
    tmp_path, monkeypatch
):
    said, tried = [], []
    pipeline = SimpleNamespace(lake=SimpleNamespace(path=str(tmp_path)))
    run = Run(pipeline, tmp_path / "spark.log", said.append, lambda _: None)

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


@pytest.mark.parametrize("full_for", [3, 100])
def test_a_full_disk_is_tried_again_for_a_while(tmp_path, monkeypatch, full_for):
    tried, said = [], []
    pipeline = SimpleNamespace(lake=SimpleNamespace(path=str(tmp_path)))
    run = Run(pipeline, tmp_path / "spark.log", said.append, lambda _: None)

    def stream(*, from_beginning):
        tried.append(from_beginning)
        if len(tried) <= full_for:
            raise OSError(errno.ENOSPC, "No space left on device")

    fails = streaming()
    monkeypatch.setattr(fails, "stream", stream)
    monkeypatch.setattr(run._stop, "wait", lambda _: None)
    what = f"The lake's disk is full ({tmp_path}): No space left on device"
    if full_for == 3:
        run._stream_until_done(fails, from_beginning=False)
        assert said == [f"{what}; deciding anew where to go on"] * 3
    else:
        with pytest.raises(IngestError) as ended:
            run._stream_until_done(fails, from_beginning=False)
        assert (ended.value.code, ended.value.what) == ("E-DISK-FULL", f"{what}.")
        assert len(tried) == 9


DENIED = LakeDeniedError("s3a://lake", "403 Forbidden")


AWAY = LakeAwayError("s3a://lake", "503 Service Unavailable")


def tried(tmp_path, monkeypatch, failures, **parts):
    """A run that meets these failures one after the other, and then ends as asked; what it says, and how long it pauses."""
    said, paused, left = [], [], list(failures)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    pipeline = SimpleNamespace(lake=Lake.model_validate({"path": "s3a://lake"}))
    run = Run(pipeline, tmp_path / "spark.log", said.append, lambda _: None)
    fails = streaming()
    vars(fails).update(parts)

    def stream(*, from_beginning):
        if left:
            raise left.pop(0)

    monkeypatch.setattr(fails, "stream", stream)
    monkeypatch.setattr(run._stop, "wait", paused.append)
    try:
        run._stream_until_done(fails, from_beginning=False)
    finally:
        tried.said, tried.paused, tried.fails = said, paused, fails


@pytest.mark.parametrize("failure", [AWAY, DENIED])
def test_a_lake_that_is_away_for_hours_ends_no_job_that_runs_and_is_said_once(
    tmp_path, monkeypatch, failure
):
    tried(tmp_path, monkeypatch, [failure] * 2000)  # a working day
    assert tried.said == [f"{failure.what.rstrip('.')}; deciding anew where to go on"]
    assert tried.paused[:6] == [1, 2, 4, 8, 15, 15]
    assert max(tried.paused) == 15


def test_what_else_fails_meanwhile_counts_and_is_said(tmp_path, monkeypatch):
    other = IngestError("E-KAFKA-AWAY", "Kafka is away.", remedy="start it.", may_pass=True)
    tried(tmp_path, monkeypatch, [AWAY, AWAY, DENIED, DENIED, other, AWAY, *[other] * 7])
    assert [one.split(";")[0].split(":")[0] for one in tried.said[:4]] == [
        "The lake s3a",
        "The object store does not let us into the lake s3a",
        "Kafka is away",
        "The lake s3a",
    ]
    with pytest.raises(IngestError, match="Kafka is away"):
        tried(tmp_path, monkeypatch, [AWAY, *[other] * 4, AWAY, *[other] * 5])


def test_a_run_to_the_end_does_not_wait_for_a_lake_for_good(tmp_path, monkeypatch):
    with pytest.raises(LakeAwayError):
        tried(tmp_path, monkeypatch, [AWAY] * 9, once=True)
