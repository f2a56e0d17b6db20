"""Writing a batch to Redis: of each key the newest row, for readers who cannot wait. From Spark's tasks.

Each key is a hash: `version`, and `row`, which is JSON, or `gone`. One script on the server compares and sets, so whichever of two writes comes last, also
from a process that was taken for dead, the newer row stays; and a key that is gone keeps its version, or an older write would bring it back.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ingest.config.connection_settings import Server
from ingest.flows.mysql_server import away
from ingest.flows.refused_rows import as_json
from ingest.model.errors import IngestError

if TYPE_CHECKING:
    import redis

CHUNK = 500
"""Keys of one round trip."""

SET = """
local held = redis.call('HGET', KEYS[1], 'version')
if held and held > ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'gone', '1')
else
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'row', ARGV[3])
end
return 1
"""
"""Of a key; its version, whether it is gone, its row. Versions are digits alone and of one length, so that Lua compares them as it should
whatever the server's locale is. Readers see a key before it or after it, and nothing in between.
"""

_DIGEST = hashlib.sha1(SET.encode(), usedforsecurity=False).hexdigest()
"""By which Redis calls a script that it has loaded."""


@dataclass(frozen=True)
class Into:
    """Goes to Spark's tasks. ``columns``: of each row, behind which it says whether its key is gone, and its version; ``keys``: some of them."""

    server: Server
    prefix: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]

    def key(self, row: Sequence[Any]) -> str:
        """A row's. Parts of a key are told apart: a `:` inside one is `%3A`, and NULL is a text that no value has."""
        return ":".join([self.prefix, *(_part(row[self.columns.index(key)]) for key in self.keys)])


def _part(value: Any) -> str:
    if value is None:
        return "%00"
    text = value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
    return text.replace("%", "%25").replace(":", "%3A")


OWNERS = "ingest:flow:"
"""What the keys begin with that say how versions are made, and how often that has changed."""

_EPOCH = """
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
local known = tonumber(ARGV[2])
local own = redis.call('HGET', KEYS[1], 'versions') == ARGV[1]
if own and epoch > 0 and epoch >= known then return epoch end
if not own and epoch > known and ARGV[3] == '1' then return 0 end
epoch = math.max(epoch, known) + 1
redis.call('HSET', KEYS[1], 'versions', ARGV[1], 'epoch', epoch)
return epoch
"""
"""Of an owner; how its versions are made, the number that is known, and whether its flow runs already. A number below the known one is no other
flow's: it was lost, as with a key that is evicted, or with all that Redis has held since its last dump. What was written under the known one
may still be there, so that it goes on above it.
"""


def begin(server: Server, owner: str, versions: str, known: int = 0) -> int:
    """How often versions of a sink were made in another way, from 1: it leads each version, so that those of now are newer than those of before. ``versions``: how
    they are made from now on; ``known``: what it said last, 0 where that is not known.
    """
    return _epoch(server, owner, versions, known, runs=False)


def epoch(server: Server, owner: str, versions: str, known: int) -> int:
    """The same, for a flow that runs: of one that another has followed it is 0, so whoever wakes up brings nothing back."""
    return _epoch(server, owner, versions, known, runs=True)


def _epoch(server: Server, owner: str, versions: str, known: int, *, runs: bool) -> int:
    with answered(server):
        said = client(server).eval(_EPOCH, 1, owner, versions, str(known), "1" if runs else "0")
        return int(str(said))


@contextmanager
def answered(server: Server) -> Iterator[None]:
    """Raises :class:`IngestError` where it cannot be reached, or refuses a whole command."""
    import redis

    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError) as failure:
        raise away(server, str(failure)) from None
    except redis.ResponseError as failure:
        raise refuses(server, str(failure)) from None


_open: dict[tuple[int, Server], redis.Redis] = {}
"""Of this process, by its id, as Spark's workers are forked. Each is a pool."""


def client(server: Server) -> redis.Redis:
    """One that tries again for some seconds where Redis does not answer."""
    import redis
    from redis.backoff import ExponentialBackoff
    from redis.retry import Retry

    place = os.getpid(), server
    if place not in _open:
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_data": server.ca} if server.tls else {}
        _open[place] = redis.Redis(
            host=server.host,
            port=server.port,
            db=int(server.database or 0),
            username=server.user or None,
            password=server.secret or None,
            socket_connect_timeout=5,
            socket_timeout=30,
            retry=Retry(ExponentialBackoff(cap=2, base=0.1), 4),
            decode_responses=True,
            **tls,
        )
    return _open[place]


def by_key(into: Into, rows: Iterator[Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """In a task. Yields what Redis refuses: row and reason, as of a key that holds something else. Raises :class:`IngestError` where it cannot be reached."""
    import redis

    while chunk := list(islice(rows, CHUNK)):
        pipe = client(into.server).pipeline(transaction=False)
        pipe.script_load(SET)  # it may have been started anew
        for row in chunk:
            *values, gone, version = row
            said = "" if gone else as_json(into.columns, values)
            pipe.evalsha(_DIGEST, 1, into.key(row), version, "1" if gone else "0", said)
        with answered(into.server):
            answers = pipe.execute(raise_on_error=False)
        for row, answer in zip(chunk, answers[1:], strict=True):
            if isinstance(answer, redis.ResponseError):
                if "WRONGTYPE" not in str(answer):
                    raise refuses(into.server, str(answer))
                yield as_json(into.columns, row), str(answer)
            elif isinstance(answer, redis.RedisError):
                raise away(into.server, str(answer))


def refuses(server: Server, why: str) -> IngestError:
    """It answers, and takes nothing: it is full, or a replica, or asks for a password."""
    return IngestError(
        "E-FLOW-SERVER",
        f"{server.shown} (`connections.{server.name}`) refuses what a flow writes: {why}.",
        means="The flow waits for it; its batch comes again.",
        remedy="see to the server, or correct `connections` in the pipeline file.",
        may_pass=True,
    )
