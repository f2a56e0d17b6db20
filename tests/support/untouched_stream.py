"""A `Streaming` of which a test names what it touches."""

import threading
from pathlib import Path
from types import SimpleNamespace

from ingest.job.streaming import Streaming


def streaming(**parts):
    """What is not named is not touched."""
    nothing = SimpleNamespace()
    return Streaming(
        pipeline=SimpleNamespace(
            lake=SimpleNamespace(path="", catalog=None), spark=SimpleNamespace(on_cluster=False)
        ),
        spark=nothing,
        committer=parts.get("committer", nothing),
        supervisor=parts.get("supervisor", nothing),
        ahead=nothing,
        log=Path("log"),
        say=lambda _: None,
        report=lambda _: None,
        stop=threading.Event(),
    )
