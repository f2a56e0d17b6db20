"""A login and a certificate for Kafka Connect that are others while a job runs."""

import base64
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ingest.config.kafka_settings import Connect
from ingest.model.errors import IngestError
from ingest.source.connect_rest import Rest
from tests.support.secured import Pki


class Worker(BaseHTTPRequestHandler):
    """Answers `{}` to whoever has its server's password."""

    def do_GET(self):
        self.server.asked += 1
        wanted = "Basic " + base64.b64encode(f"u:{self.server.password}".encode()).decode()
        let_in = self.headers.get("Authorization") == wanted
        self.send_response(200 if let_in else 401)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def worker(tmp_path):
    """A worker by TLS, whose certificate an authority has signed: `ca.pem` of the folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Worker)
    server.password, server.asked = "old", 0
    server.plain = server.socket
    serve(server, Pki(tmp_path / "one"))
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def serve(server, authority):
    authority.sign("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.home / "server.pem", authority.home / "server.key")
    server.context = context
    server.get_request = lambda: accepted(server)


def accepted(server):
    connection, address = server.plain.accept()
    return server.context.wrap_socket(
        connection, server_side=True, do_handshake_on_connect=False
    ), address


@pytest.fixture
def rest(worker, tmp_path):
    (tmp_path / "secret").write_text("old")
    (tmp_path / "ca").write_bytes((tmp_path / "one" / "ca.pem").read_bytes())
    found = Rest(
        Connect.model_validate(
            {
                "url": f"https://127.0.0.1:{worker.server_port}",
                "user": "u",
                "password": {"file": str(tmp_path / "secret")},
                "ca": str(tmp_path / "ca"),
            }
        )
    )
    assert found.call("GET", "/") == {}
    return found


def test_a_password_that_was_changed_while_a_job_runs_is_read_again(rest, worker, tmp_path):
    worker.password = "new"
    (tmp_path / "secret").write_text("new")
    assert rest.call("GET", "/") == {}
    assert worker.asked == 3
    assert rest.call("GET", "/") == {}
    assert worker.asked == 4


def test_one_that_is_the_same_and_wrong_is_asked_with_once(rest, worker, tmp_path):
    worker.password = "new"
    for _ in ("as it was", "for a moment not there"):
        asked = worker.asked
        with pytest.raises(IngestError) as failure:
            rest.call("GET", "/")
        assert failure.value.code == "E-CONNECT-DENIED"
        assert worker.asked == asked + 1
        (tmp_path / "secret").unlink(missing_ok=True)
    (tmp_path / "secret").write_text("new")
    assert rest.call("GET", "/") == {}


def test_a_certificate_of_another_authority_is_taken_once_its_file_has_it(rest, worker, tmp_path):
    other = Pki(tmp_path / "other")
    serve(worker, other)
    rest._http.close()  # as where the worker that was started anew has dropped its connections
    rest._http = rest._client()
    with pytest.raises(IngestError) as failure:
        rest.call("GET", "/")
    assert failure.value.code == "E-CONNECT-AWAY"
    (tmp_path / "ca").write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    assert rest.call("GET", "/") == {}
