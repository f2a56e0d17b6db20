"""What a run does when something beside its query goes wrong."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from ingest.job.run import Run
from ingest.model.errors import Exit, IngestError


def test_a_server_that_is_away_for_a_moment_does_not_pass_for_a_wish_to_stop():
    stopped = []
    query = SimpleNamespace(
        awaitTermination=lambda _: False, isActive=True, stop=lambda: stopped.append(1)
    )

    def look() -> None:
        raise IngestError("E-CONNECT-AWAY", "Connect is away.", remedy="wait", may_pass=True)

    run = Run(SimpleNamespace(), Path("log"), lambda _: None, lambda _: None)
    with pytest.raises(IngestError, match="Connect is away"):
        run._watch(query, SimpleNamespace(look=look), SimpleNamespace(), lambda: None)
    assert stopped == [1]
    assert not run._stop.is_set(), "the run would end in silence, as if asked to"


def test_what_code_raises_of_itself_is_tried_once_more_and_told_with_its_file(
    tmp_path, monkeypatch
):
    said, tried = [], []
    run = Run(SimpleNamespace(), tmp_path / "spark.log", said.append, lambda _: None)

    def stream(*_, **__):
        tried.append(1)
        raise json.JSONDecodeError("Unterminated string", "{", 1)

    monkeypatch.setattr(run, "_stream", stream)
    monkeypatch.setattr(run._stop, "wait", lambda _: None)
    with pytest.raises(IngestError, match="JSONDecodeError: Unterminated") as told:
        run._stream_until_done(SimpleNamespace(), None, None, None, once=True, from_beginning=False)
    assert (told.value.code, told.value.exit_code) == ("E-BATCH-FAILED", Exit.FAILED)
    assert len(tried) == 2
    assert "Traceback" in (tmp_path / "spark.log").read_text(encoding="utf-8")
    assert "Traceback" not in "".join([*said, str(told.value)])
