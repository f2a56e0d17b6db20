"""A name node, an object store or another machine that does not answer: found by the classes of what Java threw.

Such a failure comes at the table whose turn it is, and is no table's own. Of a text only what Hadoop itself begins it with is read: it may
hold values of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError

from ingest.lake.files.disk_failure import chain

_KINDS = frozenset(
    [
        *(
            f"java.net.{kind}Exception"
            for kind in ("Connect", "NoRouteToHost", "UnknownHost", "SocketTimeout", "Socket")
        ),
        "org.apache.hadoop.net.ConnectTimeoutException",
        *(f"org.apache.hadoop.ipc.{kind}Exception" for kind in ("Retriable", "Standby")),
        *(
            f"org.apache.hadoop.fs.s3a.AWS{kind}Exception"
            for kind in ("ClientIO", "ServiceThrottled", "Status500", "ApiCallTimeout")
        ),
        *(
            f"software.amazon.awssdk.core.exception.{kind}Exception"
            for kind in ("ApiCallTimeout", "ApiCallAttemptTimeout")
        ),
    ]
)
"""Of Java's network, and what Hadoop 3.5 makes of a server's answers (``NetUtils.wrapException``, ``S3AUtils.translateException``)."""
_REMOTE = "org.apache.hadoop.ipc.RemoteException"
"""What a name node answers: its own class stands in it."""
_ENDED = "End of File Exception between local host"
"""As ``NetUtils`` begins the text of a connection that broke off; a file that ends too early is a table's own."""


def is_away(failure: BaseException) -> bool:
    """Whether a failure, or one that has led to it, is that of a server that does not answer. False where Java cannot be asked any more."""
    return answer_of(failure) is not None


def answer_of(failure: BaseException) -> Any | None:
    """What Java threw there; None for any other failure."""
    try:
        return next(filter(_is_away, thrown_in_java(failure)), None)
    except Py4JError:
        return None


def thrown_in_java(failure: BaseException) -> Iterator[Any]:
    """What Java has thrown of a failure and of those that have led to it, with its causes. Raises Py4J's where Java is gone."""
    for one in chain(failure):
        java = getattr(one, "java_exception", None) or getattr(one, "_origin", None)
        for _ in range(20):  # a cause may be its own in the end
            if java is None:
                break
            yield java
            java = java.getCause()


def _is_away(java: Any) -> bool:
    name = str(java.getClass().getName())
    if name == _REMOTE:
        name = str(java.getClassName())
    if name.endswith((".StandbyException", ".RetriableException", ".SafeModeException")):
        return True  # where a file is made, Hadoop's client has unwrapped it
    return name in _KINDS or str(java.getMessage() or "").startswith(_ENDED)
