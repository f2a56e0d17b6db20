"""Questions to Kafka Connect's REST interface, and what its answers mean where their status alone would mislead."""

from __future__ import annotations

import json as json_of
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_fixed

from ingest.config.connection_settings import LOOPBACK
from ingest.config.kafka_settings import Connect
from ingest.model.errors import THE_EMBEDDED_ONE, Exit, IngestError

Say = Callable[[str], None]

_ANSWER = 30.0
"""Seconds within which Connect answers any question."""
_SOON = 10.0
"""Seconds of one that may be kept back by a transaction, until a person is told,"""
_ROLLED_BACK = 75.0
"""and seconds from then on. Connect reads its offsets up to the end of their topic, so behind every transaction that a task
has open there: where the task hangs (its topic was deleted), until Kafka rolls that back. Kafka does so
``transaction.timeout.ms`` after it began, 60 s with Connect, and looks every 10 s (answers after 54 and 56 s seen)."""


class Rest:
    """Of the worker, or group of workers, at one address."""

    def __init__(self, connect: Connect) -> None:
        self._url, self._connect = connect.url, connect
        self._made_with = _secrets(connect)
        self._http = self._client()

    def _client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self._url,
            timeout=_ANSWER,
            auth=_login(self._connect),
            verify=_trusted(self._connect),
            # A login in clear is for this machine alone: no proxy of the environment's is between.
            trust_env=urlsplit(self._url).hostname not in LOOPBACK,
        )

    def _renewed(self) -> bool:
        """Whether there is another password or certificate by now, to ask with again: a job may run longer than they are good for. Where they cannot
        be read at this moment, there is none.
        """
        with suppress(IngestError):
            if (now := _secrets(self._connect)) != self._made_with:
                fresh = self._client()
                self._http.close()
                self._made_with, self._http = now, fresh
                return True
        return False

    def call(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        absent_ok: bool = False,
        say: Say | None = None,
    ) -> dict[str, Any] | None:
        """The answer as it is read from JSON, ``{}`` for an empty one; None for a 404 with ``absent_ok``. With ``say`` a
        transaction that hangs is waited for, and a sentence says so. Raises :class:`IngestError`.
        """
        try:
            answer = self._let_in(method, path, json, say)
        except httpx.HTTPError as failure:
            raise IngestError(
                "E-CONNECT-AWAY",
                f"Kafka Connect at {self._url} does not answer: "
                f"{str(failure) or type(failure).__name__}.",
                remedy=f"start it ({THE_EMBEDDED_ONE}) or correct `connect.url` in the pipeline file.",
                may_pass=True,
            ) from None
        if _is_starting(answer):
            raise IngestError(
                "E-CONNECT-AWAY",
                f"Kafka Connect at {self._url} is still starting, or `connect.url` is not its address.",
                remedy="run again in a moment; look into Connect's log if it stays so.",
                may_pass=True,
            )
        if answer.status_code in (401, 403):
            raise IngestError(
                "E-CONNECT-DENIED",
                f"Kafka Connect at {self._url} does not let us in ({answer.status_code}).",
                means="The connector was not looked at or changed.",
                remedy="correct `connect.user` and `connect.password` in the pipeline file.",
            )
        if answer.status_code == 404 and absent_ok:
            return None
        if not answer.is_success:
            raise IngestError(
                "E-CONNECT-ANSWER",
                f"Kafka Connect answered {answer.status_code} to {method} {path}: "
                f"{_message(answer) or answer.headers.get('location', 'nothing')}.",
                remedy="read Connect's log; `ingest connector status` shows the connector. If it is not Connect that answers, correct "
                "`connect.url`.",
                exit_code=Exit.FAILED,
                may_pass=_is_settling(answer) or "timed out" in _message(answer),
            )
        try:
            return answer.json() if answer.content else {}
        except json_of.JSONDecodeError:
            raise IngestError(
                "E-CONNECT-ANSWER",
                f"What answers at {self._url} is not Kafka Connect: its answer to {method} {path} is no JSON.",
                remedy="correct `connect.url` in the pipeline file.",
                exit_code=Exit.FAILED,
            ) from None

    def _let_in(self, method: str, path: str, json: object, say: Say | None) -> httpx.Response:
        try:
            answer = self._asked(method, path, json, say)
        except httpx.ConnectError:  # so is a certificate that nobody known has signed
            if not self._renewed():
                raise
        else:
            if answer.status_code != 401 or not self._renewed():
                return answer
        return self._asked(method, path, json, say)

    def _asked(self, method: str, path: str, json: object, say: Say | None) -> httpx.Response:
        # A worker whose group settles asks to be asked again. One that starts answers 404 to everything:
        # that says nothing about a connector.
        not_yet = again_while(lambda answer: _is_settling(answer) or _is_starting(answer), 40, 0.5)
        ask: Callable[..., httpx.Response] = partial(
            not_yet, self._http.request, method, path, json=json
        )
        if say is None:
            return ask()
        try:
            return ask(timeout=_SOON)
        except httpx.ReadTimeout:
            say(
                "Kafka Connect does not say yet how far the connector is, as while a task hangs with a transaction open in "
                f"Kafka; waiting up to {_ROLLED_BACK:.0f} s until Kafka has ended that …"
            )
            return ask(timeout=_ROLLED_BACK)


def _login(connect: Connect) -> httpx.BasicAuth | None:
    if connect.user is None or (password := _password(connect)) is None:
        return None
    return httpx.BasicAuth(connect.user, password)


def _password(connect: Connect) -> str | None:
    if connect.password is None:
        return None
    return connect.password.read("Kafka Connect's password", "connect.password").get_secret_value()


def _secrets(connect: Connect) -> tuple[str | None, bytes]:
    """What is in the files that a client is made with."""
    try:
        ca = Path(connect.ca).read_bytes() if connect.ca else b""
    except OSError:
        ca = b""  # said where it is used
    return _password(connect), ca


@cache
def _usual() -> ssl.SSLContext:
    """The machine's certificates, or those that the environment names, on any host. To read them takes 56 ms of CPU, also where the address has no TLS."""
    return httpx.create_ssl_context()


def _trusted(connect: Connect) -> ssl.SSLContext:
    if connect.ca is None:
        return _usual()
    try:
        return ssl.create_default_context(cafile=connect.ca)
    except (OSError, ssl.SSLError) as failure:
        raise IngestError(
            "E-CONNECT-CA",
            f"{connect.ca}, the certificate that Kafka Connect's is checked by, cannot be read: "
            f"{failure.strerror or failure}.",
            remedy="correct `connect.ca` in the pipeline file; it is a file in PEM.",
        ) from None


def _is_starting(answer: httpx.Response) -> bool:
    """True for a 404 that Connect itself did not write: its own name an ``error_code``."""
    return answer.status_code == 404 and "error_code" not in answer.text


def _is_settling(answer: httpx.Response) -> bool:
    """True while a group of workers deals out its connectors anew. Most requests get a 409 then; some that
    only read get a 500 (seen with four connectors made at once).
    """
    return answer.status_code == 409 or (
        answer.status_code == 500 and "rebalance" in _message(answer)
    )


def again_while(unfit: Callable[[Any], bool], times: int, seconds: float) -> Retrying:
    """Calls what it is given up to so many times, with pauses, while what comes back is unfit; returns the last of it.
    An exception is not tried again.
    """
    return Retrying(
        stop=stop_after_attempt(times),
        wait=wait_fixed(seconds),
        retry=retry_if_result(unfit),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        sleep=_pause,
    )


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _message(answer: httpx.Response) -> str:
    try:
        return str(json_of.loads(answer.text).get("message", answer.text))[:300].rstrip(".")
    except (json_of.JSONDecodeError, AttributeError):
        return answer.text[:300]
