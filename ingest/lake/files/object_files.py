"""Small files of a lake in an object store, over HTTP and without Spark: the lease, epochs, requests, notes.

What one writer alone may make (:meth:`ObjectFiles.create`) goes by a conditional put, which the server refuses where the name
is taken. Not every server that speaks S3 looks at that condition, so each lake is tried before it is written to
(:func:`refuse_unfit`). A put is whole or not there; none is seen half.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions as failed
from obstore.store import from_url

from ingest.model.errors import Exit, IngestError

_ATTEMPT = "ingest-attempt"
"""What each conditional put says of itself: whose it was is told by that when its answer was lost."""
_TRIES = 3
_CLIENT: Any = {"timeout": "10s", "connect_timeout": "5s"}
_RETRY: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
"""A lease expires after 12 seconds without a sign: who cannot reach its lake that long is not waited for."""

_PART = 8 * 2**20
_NONE = (failed.NotFoundError, FileNotFoundError)


class LakeAwayError(IngestError):
    """The object store does not answer, or not as it should. Nothing was written that it did not confirm."""

    def __init__(self, root: str, why: str) -> None:
        super().__init__(
            "E-LAKE-AWAY",
            f"The lake {root} cannot be reached: {why}.",
            means="Nothing is lost; the batch in hand comes again.",
            remedy="see that the object store runs and that `lake.path` and `lake.storage` are right.",
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
            "write and delete.",
        )


class ObjectFiles:
    """``storage.Files`` below one URI. Raises :class:`LakeAwayError` and :class:`LakeDeniedError`."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        # Named here, since options of the client take the place of all that the environment says of it.
        in_clear = os.environ.get("AWS_ALLOW_HTTP", "") == "true"
        with _said(self._root):
            client: Any = {**_CLIENT, "allow_http": in_clear}
            self._store: Any = from_url(self._root, client_options=client, retry_config=_RETRY)

    def read(self, name: str) -> str | None:
        """The text of a file, or None when there is none."""
        found = self.content(name)
        return None if found is None else found.decode()

    def content(self, name: str) -> bytes | None:
        """Its bytes."""
        with _said(self._root), suppress(*_NONE):
            return bytes(obstore.get(self._store, name).bytes())
        return None

    def seen(self, name: str) -> tuple[object, ...] | None:
        """What tells it from another file of that name; None where there is none."""
        found = self._head(name)
        return None if found is None else (found["e_tag"], found["last_modified"])

    def written(self, name: str) -> float | None:
        """When, in seconds since 1970; None where there is none."""
        found = self._head(name)
        return None if found is None else float(found["last_modified"].timestamp())

    def _head(self, name: str) -> Any:
        with _said(self._root), suppress(*_NONE):
            return obstore.head(self._store, name)
        return None

    def fetch(self, name: str, to: Path) -> None:
        """Into a file of this machine's. Raises ``FileNotFoundError`` where there is none."""
        with _said(self._root), to.open("wb") as file:
            try:
                for part in obstore.get(self._store, name).stream(min_chunk_size=_PART):
                    file.write(part)
            except _NONE:
                raise FileNotFoundError(f"{self._root}/{name}") from None

    def put(self, file: Path, name: str) -> None:
        """A file of this machine's, under a name of its own; a large one in parts, of which none is seen before all are there."""
        with _said(self._root):
            obstore.put(self._store, name, file)

    def remove(self, name: str) -> None:
        """One file; nothing happens when it is not there."""
        with _said(self._root), suppress(*_NONE):
            obstore.delete(self._store, name)

    def write(self, name: str, text: str, *, lasting: bool = True) -> None:
        """Write a file whole, replacing what was there."""
        del lasting  # what an object store has confirmed is lasting
        with _said(self._root):
            obstore.put(self._store, name, text.encode())

    def create(self, name: str, text: str) -> bool:
        """Write a file that must not exist; False when it does.

        Where the answer of a put is lost, the file itself tells whether it was made, and by whom: taking one's own for another's
        would leave a lease that nobody holds.
        """
        attempt = uuid.uuid4().hex
        for left in reversed(range(_TRIES)):
            try:
                self._create(name, text, attempt)
            except failed.AlreadyExistsError:
                return self._attempt_of(name) == attempt
            except failed.GenericError as failure:
                made = self._attempt_of(name)
                if made is not None:
                    return made == attempt
                if not left:
                    raise LakeAwayError(self._root, _first_line(failure)) from None
            else:
                return True
        raise AssertionError("unreachable")

    def _create(self, name: str, text: str, attempt: str) -> None:
        try:
            obstore.put(
                self._store, name, text.encode(), mode="create", attributes={_ATTEMPT: attempt}
            )
        except (failed.PermissionDeniedError, failed.UnauthenticatedError) as failure:
            raise LakeDeniedError(self._root, _first_line(failure)) from None
        except _NONE as failure:
            raise LakeAwayError(self._root, _first_line(failure)) from None

    def _attempt_of(self, name: str) -> str | None:
        """Of who made the file; None where there is none."""
        found = self._get(name)
        return None if found is None else str(found.attributes.get(_ATTEMPT, ""))

    def _get(self, name: str) -> Any:
        with _said(self._root), suppress(*_NONE):
            return obstore.get(self._store, name)
        return None

    def delete(self, name: str) -> None:
        """Remove a file or a whole folder; nothing happens when it is not there."""
        with _said(self._root):
            below = [one["path"] for part in obstore.list(self._store, f"{name}/") for one in part]
            for path in (*below, name):
                with suppress(*_NONE):
                    obstore.delete(self._store, path)

    def names(self, folder: str) -> list[str]:
        """Names in a folder; empty when there is no such folder."""
        with _said(self._root):
            found = obstore.list_with_delimiter(self._store, f"{folder}/" if folder else None)
        paths = [*(one["path"] for one in found["objects"]), *found["common_prefixes"]]
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)


def refuse_unfit(lake: str) -> None:
    """Before anything is written: the store answers, lets us in, and keeps two writers of one name apart. Raises
    :class:`IngestError`.
    """
    files, probe = ObjectFiles(lake), f"_ingest/probe-{uuid.uuid4().hex[:8]}"
    try:
        files.create(probe, "one")
        twice = files.create(probe, "two")
    finally:
        with suppress(IngestError):
            files.delete(probe)
    if twice:
        raise IngestError(
            "E-LAKE-UNSAFE",
            f"The object store of the lake {lake} lets two writers make one file: it does not look at a put's condition "
            "(`If-None-Match`).",
            means="Two jobs could each hold the lake and undo each other's commits; nothing was started.",
            remedy="use a store that has conditional writes (Amazon S3, Google Cloud Storage, Azure, MinIO, Ceph from Reef on), or a "
            "newer version of this one.",
        )


@contextmanager
def _said(root: str) -> Iterator[None]:
    try:
        yield
    except (failed.PermissionDeniedError, failed.UnauthenticatedError) as failure:
        raise LakeDeniedError(root, _first_line(failure)) from None
    except _NONE:
        raise
    except (failed.BaseError, ValueError) as failure:
        raise LakeAwayError(root, _first_line(failure)) from None


def _first_line(failure: Exception) -> str:
    """What a store says first; behind it stands what only its makers read."""
    return str(failure).strip().splitlines()[0].rstrip(". ")
