"""Whatever is begun on the lake of another pipeline is refused before anything is written there, and before any server is told of it."""

import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.job import flow_job
from ingest.job.run import Run
from ingest.lake.files.lease import Lease
from ingest.lake.files.storage import LocalFiles
from ingest.model.errors import IngestError
from ingest.model.names import lease_path
from ingest.source.resync_all import resnapshot
from ingest.testing.lake import pipeline_at
from tests.support.small_lake import SmallLake
from tests.support.untouched import everything
from tests.unit.config.test_flow_settings import GOOD


@pytest.fixture
def lake(tmp_path):
    """Of the pipeline `p`, filled by an earlier version, and of another MySQL."""
    made = SmallLake(tmp_path / "lake")
    made.batch({"a": 2})
    LocalFiles(str(made.root)).write("_ingest/epochs/0.json", "{}")
    return made


def log(pipeline):
    return Path(pipeline.lake.path).parent / "spark.log"


def run(pipeline, **more):
    Run(pipeline, log(pipeline), print, print, **more).execute(once=True)


def begun(pipeline):
    with flow_job.session(pipeline, log(pipeline)):
        raise AssertionError("it has begun")


def held(pipeline):
    with flow_job.held(pipeline, "f", log(pipeline), print):
        raise AssertionError("it has begun")


@pytest.mark.parametrize(
    "begins",
    [
        run,
        lambda pipeline: run(pipeline, only_replay=True),
        lambda pipeline: resnapshot(pipeline, print),
        lambda pipeline: flow_job.run(pipeline, "f", log(pipeline), print, once=True),
        held,
        begun,
    ],
    ids=["run", "replay", "resync --all", "flow run", "flow late --apply", "flow state"],
)
def test_a_job_on_it_is_refused_and_nothing_was_touched(lake, monkeypatch, begins):
    monkeypatch.setattr("ingest.job.run.refuse_unfit", lambda _: [])  # it asks servers
    monkeypatch.setattr("ingest.job.stop_signal.signal.signal", lambda *_: None)
    before = everything(lake.root)
    with pytest.raises(IngestError, match="E-START-REFUSED.*belongs to the pipeline 'p'"):
        begins(pipeline_at(lake.root, "q", flows={"f": GOOD}))
    assert everything(lake.root) == before


@pytest.mark.parametrize(
    "words",
    [["resync", "d.a"], ["resync", "--all"], ["connector", "apply"], ["flow", "late", "f"]],
    ids=" ".join,
)
def test_a_command_on_it_is_refused_and_nothing_was_touched(lake, tmp_path, monkeypatch, words):
    monkeypatch.setattr("ingest.start.preflight.refuse_unfit", lambda _: [])
    file = tmp_path / "q.yaml"
    given = pipeline_at(lake.root, "q", flows={"f": GOOD})
    file.write_text(given.model_dump_json(exclude_unset=True))
    name = 2 if words[0] in ("connector", "flow") else 1
    before = everything(lake.root)
    done = CliRunner().invoke(app, [*words[:name], str(file), *words[name:]])
    assert (done.exit_code, "belongs to the pipeline 'p'" in done.output) == (2, True), done.output
    assert everything(lake.root) == before


def test_who_stood_by_while_it_became_another_s_gives_the_lease_back_and_writes_nothing_else(
    tmp_path, monkeypatch
):
    lake = tmp_path / "lake"
    monkeypatch.setattr("ingest.job.run.refuse_unfit", lambda _: [])
    monkeypatch.setattr("ingest.job.run.Run._start_spark", lambda *_, **__: None)
    monkeypatch.setattr("ingest.job.stop_signal.signal.signal", lambda *_: None)
    first = Lease(LocalFiles(lease_path(str(lake))), print)
    first.acquire(standby=False, stop=threading.Event())
    said = []

    def say(sentence):
        said.append(sentence)
        if "standing by" in sentence:
            LocalFiles(str(lake)).create("_ingest/owner/pipeline.json", '{"pipeline": "p"}')
            first.release()

    with pytest.raises(IngestError, match="belongs to the pipeline 'p'"):
        Run(pipeline_at(lake, "q"), tmp_path / "spark.log", say, print).execute(standby=True)
    assert len(said) == 1
    assert {one for one in everything(lake) if "lease" not in one} == {
        "_ingest",
        "_ingest/owner",
        "_ingest/owner/pipeline.json",
    }
    assert (lake / "_ingest" / "lease" / "2.beat").read_text() == "released"
