"""Small files of a lake in an object store, over HTTP and without Spark: the lease, epochs, requests, notes.

What one writer alone may make (:meth:`ObjectFiles.create`) goes by a conditional put, which the server refuses where the name
is taken. Not every server that speaks S3 looks at that condition, so each lake is tried before it is written to
(:func:`refuse_unfit`). A put is whole or not there; none is seen half.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import obstore
from deltalake import DeltaTable, Schema
from obstore import exceptions as failed
from obstore.store import from_url

from ingest.lake.files import store_failure
from ingest.model.errors import Exit, IngestError
from ingest.model.location import in_object_store

_T = TypeVar("_T")

_ATTEMPT = "ingestattempt"
"""What each conditional put says of itself: whose it was is told by that when its answer was lost. Letters alone: Azure takes no other names."""
_TRIES = 4
_PAUSE = 0.2
"""Seconds."""
_SMALL: Any = {"timeout": "10s", "connect_timeout": "5s"}
_SMALL_RETRY: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
"""Of small files. A lease expires after 12 seconds without a sign: who cannot reach its lake that long is not waited for."""
_RUST_RETRY = {"retry_timeout": "20s"}
"""The same of delta-rs, in its words."""
_LARGE: Any = {"timeout": "900s", "connect_timeout": "5s"}
_LARGE_RETRY: Any = {"max_retries": 10, "retry_timeout": timedelta(minutes=15)}
"""Of data files, of which several come at once over whatever line there is: a time for the whole of one."""
_PART = 8 * 2**20
_RACERS = 8
"""Puts of one name, at once. Where a server looks first and writes a request's time later, each of 20 races had several winners, and 19 of 20 of two puts."""
_NONE = (failed.NotFoundError, FileNotFoundError)
_DENIED = (failed.PermissionDeniedError, failed.UnauthenticatedError)


class LakeAwayError(IngestError):
    """The object store, or a file system beyond this machine, does not answer, or not as it should. Nothing was written that it did not confirm."""

    def __init__(self, root: str, why: str) -> None:
        super().__init__(
            "E-LAKE-AWAY",
            f"The lake {root} cannot be reached: {why}.",
            means="Nothing is lost; the batch in hand comes again.",
            remedy="see that what keeps it (object store, name node) runs, and that `lake.path` and `lake.storage` are right.",
            exit_code=Exit.FAILED,
            may_pass=True,
        )


class LakeDeniedError(IngestError):
    """The object store answers that this is not allowed."""

    def __init__(self, root: str, why: str) -> None:
        super().__init__(
            "E-LAKE-DENIED",
            f"The object store does not let us into the lake {root}: {why}.",
            means="Nothing is lost; the batch in hand comes again.",
            remedy="correct the keys (`lake.storage` in the pipeline file), or what they may do in that bucket: list, read, "
            "write and delete. Keys are read when a job starts: run again with new ones, which a service manager does by itself.",
            exit_code=Exit.FAILED,
            may_pass=True,  # what keys may do is changed, and clocks are set right, while a job runs
        )


class ObjectFiles:
    """``storage.Files`` below one URI. Raises :class:`LakeAwayError` and :class:`LakeDeniedError`."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self._store = self._opened(_SMALL, _SMALL_RETRY)

    @cached_property
    def _for_data(self) -> Any:
        return self._opened(_LARGE, _LARGE_RETRY)

    def _opened(self, client: Any, retry: Any) -> Any:
        # Named here, since options of the client take the place of all that the environment says of it.
        in_clear = os.environ.get("AWS_ALLOW_HTTP", "") == "true"
        options: Any = {**client, "allow_http": in_clear}
        with _said(self._root):
            return from_url(self._root, client_options=options, retry_config=retry)

    def read(self, name: str) -> str | None:
        """The text of a file, or None when there is none."""
        found = self.content(name)
        return None if found is None else found.decode()

    def content(self, name: str) -> bytes | None:
        """Its bytes."""
        return self._answer(lambda: bytes(obstore.get(self._store, name).bytes()))

    def seen(self, name: str) -> tuple[object, ...] | None:
        """What tells it from another file of that name; None where there is none."""
        found = self._answer(lambda: obstore.head(self._store, name))
        return None if found is None else (found["e_tag"], found["last_modified"])

    def written(self, name: str) -> float | None:
        """When, in seconds since 1970; None where there is none."""
        found = self._answer(lambda: obstore.head(self._store, name))
        return None if found is None else float(found["last_modified"].timestamp())

    def _answer(self, ask: Callable[[], _T]) -> _T | None:
        """The store's, about one file; None where there is none."""
        with _said(self._root), suppress(*_NONE):
            return ask()
        return None

    def fetch(self, name: str, to: Path) -> None:
        """Into a file of this machine's. Raises ``FileNotFoundError`` where there is none."""
        with _said(self._root), suppress(*_NONE), to.open("wb") as file:
            for part in obstore.get(self._for_data, name).stream(min_chunk_size=_PART):
                file.write(part)
            return
        raise FileNotFoundError(f"{self._root}/{name}")

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some of its bytes. Raises ``FileNotFoundError`` where there is none."""
        with _said(self._root), suppress(*_NONE):
            return bytes(obstore.get_range(self._store, name, start=start, end=end))
        raise FileNotFoundError(f"{self._root}/{name}")

    def put(self, file: Path, name: str) -> None:
        """A file of this machine's, under a name of its own; a large one in parts, of which none is seen before all are there."""
        with _said(self._root):
            obstore.put(self._for_data, name, file)

    def remove(self, *names: str) -> None:
        """Files, in any order, by one request where the store knows such a one; nothing happens where one is not there."""
        with _said(self._root):
            try:
                obstore.delete(self._store, names)
            except _NONE:
                # Where a store is asked for each by itself, what comes behind one that is gone is left.
                for name in names if len(names) > 1 else ():
                    self.remove(name)

    def write(self, name: str, text: str, *, lasting: bool = True) -> None:
        """Write a file whole, replacing what was there."""
        del lasting  # what an object store has confirmed is lasting
        with _said(self._root):
            obstore.put(self._store, name, text.encode())

    def create(self, name: str, text: str) -> bool:
        """Write a file that must not exist; False when it does, and is another's.

        Where the answer of a put is lost, the file itself tells whether it was made, and by whom: who takes one's own for another's
        removes the data of a commit that is there. A store also refuses a put beside one that is under way (409 of Amazon's): then
        there is no file yet, and nobody is known to have made it.
        """
        attempt = uuid.uuid4().hex
        for left in reversed(range(_TRIES)):
            try:
                obstore.put(
                    self._store, name, text.encode(), mode="create", attributes={_ATTEMPT: attempt}
                )
            except _DENIED as failure:
                raise _error(self._root, failure) from None
            except (*_NONE, failed.BaseError, NotImplementedError) as failure:
                made = self._attempt_of(name)
                if made is not None:
                    return made == attempt
                if not left:
                    raise _error(self._root, failure) from None
                time.sleep(_PAUSE)
            else:
                return True
        raise AssertionError("unreachable")

    def tells(self, name: str) -> bool:
        """Whether the store keeps whose put a file was."""
        return bool(self._attempt_of(name))

    def _attempt_of(self, name: str) -> str | None:
        """Of who made the file; None where there is none."""
        found = self._answer(lambda: obstore.get(self._store, name))
        return None if found is None else str(found.attributes.get(_ATTEMPT, ""))

    def delete(self, name: str) -> None:
        """Remove a file or a whole folder; nothing happens when it is not there."""
        with _said(self._root):
            below = [one["path"] for part in obstore.list(self._store, f"{name}/") for one in part]
        for path in (*below, name):
            self.remove(path)

    def names(self, folder: str) -> list[str]:
        """Names in a folder; empty when there is no such folder."""
        with _said(self._root):
            found = obstore.list_with_delimiter(self._store, f"{folder}/" if folder else None)
        paths = [*(one["path"] for one in found["objects"]), *found["common_prefixes"]]
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)


def refuse_unfit(lake: str) -> None:
    """Before anything is written: the store answers, lets us in, and keeps writers of one name apart that come at once. Raises
    :class:`IngestError`.
    """
    files, probe = ObjectFiles(lake), f"_ingest/probe-{uuid.uuid4().hex[:8]}"
    gate = threading.Barrier(_RACERS, timeout=10)

    def make(one: int) -> bool:
        gate.wait()
        return files.create(probe, str(one))

    try:
        with ThreadPoolExecutor(_RACERS) as pool:
            won = sum(pool.map(make, range(_RACERS)))
        told = files.tells(probe)
    except threading.BrokenBarrierError:
        why = "this machine was too busy to put eight small files into it at once"
        raise LakeAwayError(lake, why) from None
    finally:
        with suppress(IngestError):
            files.delete(probe)
    if won > 1 or not told:
        why = (
            f"lets several writers make one file: it does not look at a put's condition (`If-None-Match`), or before it writes; {won} of "
            f"{_RACERS} puts of one name were taken"
            if won > 1
            else "does not keep what a put says of itself (`x-amz-meta-…`), so nobody can tell whose a file is when an answer was lost"
        )
        raise IngestError(
            "E-LAKE-UNSAFE",
            f"The object store of the lake {lake} {why}.",
            means="Two jobs could each hold the lake and undo each other's commits; nothing was started.",
            remedy="use a store that has conditional writes (Amazon S3, Google Cloud Storage, Azure, MinIO, Ceph from Reef on), or a "
            "newer version of this one.",
        )


@contextmanager
def _said(root: str) -> Iterator[None]:
    try:
        yield
    except (*_NONE, failed.BaseError, ValueError, NotImplementedError) as failure:
        raise _error(root, failure) from None


def _error(place: str, failure: Exception) -> LakeAwayError | LakeDeniedError:
    denied = isinstance(failure, _DENIED) or store_failure.is_denial(failure)
    return (LakeDeniedError if denied else LakeAwayError)(place, store_failure.said(failure))


@contextmanager
def asked(place: str) -> Iterator[None]:
    """Of delta-rs, about a table at a path or URI. Raises :class:`LakeAwayError` and :class:`LakeDeniedError`: a store that does not answer is an
    ``OSError`` without a number to it, or whatever else tells of a store (``store_failure``).
    """
    try:
        yield
    except Exception as failure:
        numberless = isinstance(failure, OSError) and failure.errno is None
        if in_object_store(place) and (numberless or store_failure.is_of_a_store(failure)):
            raise _error(place, failure) from None
        raise


def opened(place: str, version: int | None = None) -> DeltaTable:
    """A table by delta-rs, as it is or was. Raises its ``TableNotFoundError`` and ``DeltaError``, and as :func:`asked` does."""
    with asked(place):
        return DeltaTable(place, version, storage_options=_retry(place))


def _retry(place: str) -> dict[str, str] | None:
    """For as long as for small files: delta-rs's own three minutes are longer than a lease lasts."""
    return dict(_RUST_RETRY) if in_object_store(place) else None


def made(place: str, schema: Schema, properties: dict[str, str] | None = None) -> None:
    """An empty table by delta-rs, unless there is one. Raises as :func:`opened` does."""
    with asked(place):
        DeltaTable.create(
            place,
            schema,
            mode="ignore",
            configuration=properties,
            storage_options=_retry(place),
            raise_if_key_not_exists=False,
        )
