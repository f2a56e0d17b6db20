"""A key that has expired, or was changed, while a job runs: it waits where that may pass, and ends where only a new start is let in."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from ingest.config.lake_settings import Lake
from ingest.flows import flow_runs
from ingest.job import flow_job
from ingest.job.lent_keys import LentKeys
from ingest.job.run import Run
from ingest.lake.files import object_store
from ingest.lake.files.lease import Lease
from ingest.lake.files.object_files import LakeDeniedError, ObjectFiles
from ingest.lake.files.storage import files_at
from ingest.model.errors import Exit
from tests.support import faulty_http, s3
from tests.support.untouched_stream import streaming

ENVIRONMENT = (
    *("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)


@pytest.fixture(params=["unknown to the server", "expired"])
def lent(request, store, tmp_path, monkeypatch):
    """A process with an old key: its lake, whose file may get the new one."""
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name in ("id", "key"):
        (tmp_path / name).write_text(store.secret(name).read_text())
    with faulty_http.before(store.port) as faulty:
        if request.param == "expired":
            faulty.fault = lambda method, path: "expired"
        else:
            (tmp_path / "key").write_text("old")
        said = {
            "endpoint": faulty.endpoint,
            "access_key": {"file": str(tmp_path / "id")},
            "secret_key": {"file": str(tmp_path / "key")},
        }
        if request.param == "expired":
            (tmp_path / "token").write_text("old")
            said["session_token"] = {"file": str(tmp_path / "token")}
        lake = Lake.model_validate(
            {"path": f"s3a://{s3.BUCKET}/{uuid.uuid4().hex}", "storage": said}
        )
        object_store.lend(lake)

        def renew():
            if request.param == "expired":
                (tmp_path / "token").write_text("new")
                return
            (tmp_path / "key").write_text(store.secret("key").read_text())

        yield SimpleNamespace(lake=lake, renew=renew, faulty=faulty)


def test_a_run_ends_once_the_file_names_another_key_and_a_new_start_has_it(lent, tmp_path):
    tried, said = [], []
    run = Run(SimpleNamespace(lake=lent.lake), tmp_path / "log", said.append, lambda _: None)
    fails = streaming()

    def stream(*, from_beginning):
        tried.append(from_beginning)
        if len(tried) == 4:
            lent.renew()
        assert len(tried) < 9, "it waits for ever"
        ObjectFiles(lent.lake.path).names("")

    fails.stream = stream
    run._stop = SimpleNamespace(is_set=lambda: False, wait=lambda _: None)
    with pytest.raises(LakeDeniedError) as ended:
        run._stream_until_done(fails, from_beginning=False)
    assert len(tried) == 4
    assert len(said) == 1
    assert (ended.value.exit_code, "when a job starts" in ended.value.remedy) == (Exit.FAILED, True)
    lent.faulty.fault = lambda method, path: "none"
    if lent.lake.storage.session_token is None:  # which the tests' server knows none of
        object_store.lend(lent.lake)
        assert ObjectFiles(lent.lake.path).names("") == []


def test_who_stands_by_does_so_until_the_file_names_another_key(lent):
    said, stop = [], threading.Event()
    keys = LentKeys(lent.lake)
    lease = Lease(files_at(f"{lent.lake.path}/lease"), said.append, keys.are_old)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(lease.acquire, standby=True, stop=stop)
        time.sleep(3)
        assert not waits.done()
        lent.renew()
        try:
            with pytest.raises(LakeDeniedError):
                waits.result(30)
        finally:
            stop.set()
    assert len(said) == 1


def test_a_flow_in_a_process_of_its_own_ends_too(lent, tmp_path, monkeypatch):
    monkeypatch.setattr(flow_job, "session", lambda *_: nullcontext(SimpleNamespace()))
    monkeypatch.setattr(flow_runs, "sibling", lambda spark: spark)
    monkeypatch.setattr(flow_job.stop_signal, "stops", lambda _: None)
    flow = SimpleNamespace(trigger="1 second")
    pipeline = SimpleNamespace(name="p", lake=lent.lake, flows={"f": flow})
    said = []

    def say(sentence):
        said.append(sentence)
        if "does not let us in" in sentence:
            lent.renew()

    with pytest.raises(LakeDeniedError):
        flow_job.run(pipeline, "f", tmp_path / "log", say, once=False)
    assert sum("does not let us in" in one for one in said) == 1
