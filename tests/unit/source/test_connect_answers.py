"""What an answer of Kafka Connect means, where its status alone would mislead."""

import socket
from threading import Thread

import httpx
import pytest

from ingest.config.connection_settings import Password
from ingest.config.kafka_settings import Connect
from ingest.config.pipeline_file import parse
from ingest.local import connect as embedded
from ingest.model.errors import IngestError
from ingest.source import connect_rest
from ingest.source.connector import Connector

PIPELINE = parse(
    """
name: p
source: {mysql: "mysql://u@h", password: {env: X}, tables: ["d.*"]}
kafka: {bootstrap_servers: "k:1"}
connect: {url: "http://c:1"}
lake: {path: /nowhere}
"""
)
NOT_FOUND = httpx.Response(404, json={"error_code": 404, "message": "No status found for p"})
STARTING = httpx.Response(404)


def answering(monkeypatch, *answers):
    """A connector whose worker gives these answers, the last one for ever."""
    left = list(answers)
    monkeypatch.setattr(connect_rest, "_pause", lambda _: None)
    return asking(lambda _: left.pop(0) if len(left) > 1 else left[0])


def asking(answer):
    """A connector whose worker answers a request by this."""
    found = Connector(PIPELINE)
    rest = found._call.__self__
    rest._http = httpx.Client(
        base_url="http://c:1", transport=httpx.MockTransport(answer), timeout=30
    )
    return found


def test_a_worker_that_starts_does_not_make_a_connector_seem_lost(monkeypatch):
    running = httpx.Response(
        200, json={"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]}
    )
    status = answering(monkeypatch, STARTING, STARTING, running).status()
    assert status is not None
    assert status.task == "RUNNING"


def test_a_connector_that_is_not_there_is_none(monkeypatch):
    assert answering(monkeypatch, NOT_FOUND).status() is None


def test_a_worker_that_stays_without_an_answer_is_away_and_that_may_pass(monkeypatch):
    with pytest.raises(IngestError) as failure:
        answering(monkeypatch, STARTING).apply()
    assert (failure.value.code, failure.value.may_pass) == ("E-CONNECT-AWAY", True)


SETTLING = httpx.Response(
    500,
    json={
        "error_code": 500,
        "message": "Request cannot be completed because a rebalance is expected",
    },
)


def test_a_group_that_settles_is_asked_again_and_may_pass(monkeypatch):
    assert answering(monkeypatch, SETTLING, SETTLING, NOT_FOUND).status() is None
    with pytest.raises(IngestError) as failure:
        answering(monkeypatch, SETTLING).status()
    assert failure.value.may_pass


def test_a_worker_too_busy_to_answer_may_pass_and_a_refusal_may_not(monkeypatch):
    for message, may_pass in (("Request timed out. The worker is busy", True), ("No", False)):
        busy = httpx.Response(500, json={"error_code": 500, "message": message})
        with pytest.raises(IngestError) as failure:
            answering(monkeypatch, busy).status()
        assert failure.value.may_pass is may_pass


def stopped(state, task):
    tasks = [{"state": task}] if task else []
    return httpx.Response(200, json={"connector": {"state": state}, "tasks": tasks})


def test_a_connector_stands_still_once_its_task_is_gone_and_is_asked_until_then(monkeypatch):
    asked = []
    running, gone = stopped("RUNNING", "RUNNING"), stopped("STOPPED", "")
    found = answering(
        monkeypatch, httpx.Response(204), running, stopped("STOPPED", "RUNNING"), gone
    )
    monkeypatch.setattr(connect_rest, "_pause", asked.append)
    found.stop()
    assert asked == [0.1, 0.1]


def test_a_connector_that_goes_on_is_asked_until_connect_says_so(monkeypatch):
    asked = []
    found = answering(
        monkeypatch, httpx.Response(204), stopped("STOPPED", ""), stopped("RUNNING", "RUNNING")
    )
    monkeypatch.setattr(connect_rest, "_pause", asked.append)
    found.resume()
    assert asked == [0.1]


def test_a_connector_that_does_not_stop_is_said_after_three_hundred_looks(monkeypatch):
    asked = []
    found = answering(monkeypatch, httpx.Response(204), stopped("RUNNING", "RUNNING"))
    monkeypatch.setattr(connect_rest, "_pause", asked.append)
    with pytest.raises(IngestError, match="did not stop within 30 s"):
        found.stop()
    assert len(asked) == 299


def test_a_server_that_does_not_answer_at_all_is_asked_once(monkeypatch):
    asked = []

    def refuse(request):
        asked.append(request.method)
        raise httpx.ConnectError("refused")

    with pytest.raises(IngestError) as failure:
        asking(refuse).status()
    assert (failure.value.code, asked) == ("E-CONNECT-AWAY", ["GET"])


# A question for the stored offset is answered behind every open transaction of the offsets' topic; Kafka rolls back one that
# hangs 60 s after it began, and looks every 10 s.
KEPT_BACK = 60 + 10


def behind_a_transaction(waited, *, answers):
    """Answers a question that is willing to wait for as long as a transaction may hang; notes how long each was."""

    def answer(request):
        seconds = request.extensions["timeout"]["read"]
        waited.append(seconds)
        if not answers or sum(waited) < KEPT_BACK:
            raise httpx.ReadTimeout("timed out")
        return httpx.Response(200, json={"offsets": [{"partition": {}, "offset": {"pos": 4}}]})

    return answer


def test_who_can_do_nothing_without_the_offset_waits_for_a_transaction_that_hangs_and_says_so():
    waited, said = [], []
    found = asking(behind_a_transaction(waited, answers=True))
    assert found.offset(said.append) == {"pos": 4}
    assert waited[-1] > KEPT_BACK  # whenever the transaction began
    (sentence,) = said
    assert "hangs with a transaction open" in sentence


def test_who_looks_again_anyhow_does_not_wait_for_a_transaction_that_hangs():
    waited = []
    with pytest.raises(IngestError, match="timed out"):
        asking(behind_a_transaction(waited, answers=True)).offset()
    assert waited == [30]


def test_a_question_that_nothing_answers_ends():
    waited, said = [], []
    with pytest.raises(IngestError, match="timed out") as failure:
        asking(behind_a_transaction(waited, answers=False)).offset(said.append)
    assert failure.value.code == "E-CONNECT-AWAY"
    assert (len(waited), len(said)) == (2, 1)
    assert sum(waited) < 90  # after which a service manager, asked to stop us, would kill


@pytest.fixture
def proxy(monkeypatch):
    """Somebody whom the environment names as everybody's proxy, and what they have heard."""
    with socket.socket() as server, socket.socket() as free:
        server.bind(("127.0.0.1", 0))
        server.listen()
        free.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        server.settimeout(0.2)
        yield server, free.getsockname()[1]


def heard(server):
    try:
        with server.accept()[0] as caller:
            return caller.recv(4096)
    except TimeoutError:
        return b""


class Heard:
    """What the first who calls a proxy has said, once a moment has passed."""

    def __init__(self, server):
        self._said = []
        self._waits = Thread(target=lambda: self._said.append(heard(server)))
        self._waits.start()

    def first(self):
        self._waits.join()
        return self._said[0]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_login_for_a_worker_on_this_machine_goes_to_no_proxy(proxy, monkeypatch, host):
    server, port = proxy
    monkeypatch.setenv("SECRET", "hunter2")
    connect = Connect(url=f"http://{host}:{port}", user="u", password=Password(env="SECRET"))
    rest, proxys = connect_rest.Rest(connect), Heard(server)
    with pytest.raises(IngestError, match="does not answer"):
        rest.call("GET", "/connectors")
    assert proxys.first() == b""


def test_the_embedded_worker_is_asked_through_no_proxy(proxy, tmp_path):
    server, port = proxy
    proxys = Heard(server)
    assert embedded.Connect(tmp_path, port, "127.0.0.1:1").healthy()
    assert proxys.first() == b""


def test_a_worker_that_is_away_is_asked_through_the_proxy(proxy):
    proxy[0].settimeout(60)  # who is to call may take long on a busy machine
    proxys = Heard(proxy[0])
    with pytest.raises(IngestError):
        connect_rest.Rest(Connect(url="http://connect.example:8083")).call("GET", "/connectors")
    assert proxys.first().startswith(b"GET http://connect.example:8083/connectors")
