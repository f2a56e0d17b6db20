"""A name node, an object store or another machine that does not answer, or lets us not in: found by the classes of what Java threw.

Such a failure comes at the table whose turn it is, and is no table's own. Of a text only what Hadoop itself begins it with is read: it may
hold values of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JError

from ingest.lake.files.disk_failure import chain

_KINDS = frozenset(
    [
        *(f"java.net.{kind}Exception" for kind in ("UnknownHost", "SocketTimeout", "Socket")),
        "javax.net.ssl.SSLException",
        *(f"org.apache.hadoop.ipc.{kind}Exception" for kind in ("Retriable", "Standby")),
        *(
            f"org.apache.hadoop.fs.s3a.{kind}Exception"
            for kind in ("AWSClientIO", "HttpChannelEOF", "RemoteFileChanged", "UnknownStore")
        ),
        "software.amazon.awssdk.core.exception.SdkClientException",
        "software.amazon.awssdk.services.s3.model.NoSuchBucketException",
    ]
)
"""Of Java's network, what Hadoop 3.5 makes of a server's answers (``NetUtils.wrapException``, ``S3AUtils.translateException``), and of Amazon's
client, which is all that a reader of data files tells: each with all classes below it.
"""
_REMOTE = "org.apache.hadoop.ipc.RemoteException"
"""What a name node answers: its own class stands in it."""
_ENDED = "End of File Exception between local host"
"""As ``NetUtils`` begins the text of a connection that broke off; a file that ends too early is a table's own."""
_ANSWER = "software.amazon.awssdk.awscore.exception.AwsServiceException"
"""What an object store answers, other than that all is well."""
_OF_A_FILE = frozenset([404, 410, 416])
"""There is none, or it is shorter than what is asked for: a table's own."""
_DENIED = frozenset([401, 403])
_NOT_NOW = frozenset([408, 409, 425, 429])
"""Of those that say the request is at fault: it may be sent again."""
_EXPIRED = frozenset(["ExpiredToken", "InvalidToken", "TokenRefreshRequired"])
"""Codes that come with 400."""


def is_away(failure: BaseException) -> bool:
    """Whether a failure, or one that has led to it, is that of a server that does not answer or lets us not in. False where Java cannot be
    asked any more.
    """
    return answer_of(failure) is not None


def answer_of(failure: BaseException) -> Any | None:
    """What Java threw there; None for any other failure."""
    try:
        return next(filter(_is_away, thrown_in_java(failure)), None)
    except Py4JError:
        return None


def is_denial(failure: BaseException) -> bool:
    """Whether an object store has answered that we may not."""
    return _threw(failure, _is_denial)


def is_refusal(failure: BaseException) -> bool:
    """Whether an object store has answered that what was asked of it cannot be, which may be so of one file alone: a 400 to 499 that no
    waiting changes.
    """
    return _threw(failure, _is_refusal)


def _threw(failure: BaseException, kind: Callable[[Any], bool]) -> bool:
    """Whether Java has thrown such a one. False where it cannot be asked any more."""
    try:
        return any(map(kind, thrown_in_java(failure)))
    except Py4JError:
        return False


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
    names = _lineage(java)
    if _ANSWER in names and int(java.statusCode()) not in _OF_A_FILE:
        return True
    name = str(java.getClassName()) if _REMOTE in names else names[0]
    if name.endswith((".StandbyException", ".RetriableException", ".SafeModeException")):
        return True  # where a file is made, Hadoop's client has unwrapped it
    return not _KINDS.isdisjoint(names) or str(java.getMessage() or "").startswith(_ENDED)


def _is_denial(java: Any) -> bool:
    if _ANSWER not in _lineage(java):
        return False
    details = java.awsErrorDetails()
    code = "" if details is None else str(details.errorCode())
    return int(java.statusCode()) in _DENIED or code in _EXPIRED


def _is_refusal(java: Any) -> bool:
    if _ANSWER not in _lineage(java):
        return False
    status = int(java.statusCode())
    return 400 <= status < 500 and status not in _OF_A_FILE | _NOT_NOW


def _lineage(java: Any) -> list[str]:
    """Its class and those above it, by their names: what is of a jar that this job does not have cannot be asked for."""
    found, kind = list[str](), java.getClass()
    while kind is not None:
        found.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return found
