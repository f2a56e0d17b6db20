"""What processes did to files below a folder, in order: as ``strace`` has recorded it. Pure.

``strace -f -y -xx`` prints each call of each thread with its file's path, and all bytes in hexadecimal, so nothing has to
be guessed or unquoted. A call that another thread's interrupts stands in two lines; it counts where it returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "make", "cut", "write", "sync", "flush", "name", "rename", "remove", "folder", "link", "mark"
]

CALLS = (
    "openat,open,creat,write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,"
    "mkdirat,rmdir,ftruncate,truncate,symlink,symlinkat,copy_file_range,sendfile,sync,syncfs"
)
"""What is recorded."""

MARK = "mark-"
"""Of the name of a folder that the job makes to say how far it is: what follows it."""


@dataclass(frozen=True)
class Event:
    """One effect. ``path``: below the folder; ``to``: the other path of a rename or link.

    ``make``: a file, if there is none; ``cut``: to ``size`` bytes; ``write``: ``data`` at ``at``, or at the end; ``sync``: of
    a file's content, or of a folder's names; ``flush``: of all that there is; ``name``: a hard link; ``link``: a symbolic one, of no interest; ``mark``: the
    job said ``data``.
    """

    kind: Kind
    path: str
    to: str = ""
    data: bytes = b""
    at: int | None = None
    size: int = 0


class UnknownCallError(Exception):
    """A call on a file of ours of a kind that is not modelled."""


_CALL = re.compile(
    r"^(?P<call>\w+)\((?P<args>.*)\)\s*= (?P<result>-?\d+|\?|0x[0-9a-f]+)(?P<rest>.*)$"
)
_UNFINISHED = re.compile(r"^(?P<start>.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. \w+ resumed>(?P<end>.*)$")
_PART = re.compile(
    r'"((?:\\x[0-9a-f]{2})*)"|(-?\w+)<((?:\\x[0-9a-f]{2})*)(?:\(deleted\))?>|([^,\s"<>]+)'
)


def events(lines: Iterable[str], below: str) -> Iterator[Event]:
    """Raises :class:`UnknownCallError`."""
    begun = dict[str, str]()
    for line in lines:
        thread, _, said = line.rstrip("\n").partition(" ")
        said = said.lstrip()
        if found := _UNFINISHED.match(said):
            begun[thread] = found["start"]
            continue
        if found := _RESUMED.match(said):
            said = begun.pop(thread, "") + found["end"]
        call = _CALL.match(said)
        if call and not call["result"].startswith("-"):
            yield from _events(
                call["call"], _parts(call["args"]), call["result"], call["rest"], below
            )


@dataclass(frozen=True)
class _Part:
    """An argument: a text, or a descriptor with its path, or a word."""

    text: bytes | None = None
    path: str | None = None
    word: str = ""


def _parts(arguments: str) -> list[_Part]:
    found = list[_Part]()
    for one in _PART.finditer(arguments):
        if one[1] is not None:
            found.append(_Part(text=_bytes(one[1])))
        elif one[2] is not None:
            found.append(_Part(path=_bytes(one[3]).decode(errors="surrogateescape"), word=one[2]))
        else:
            found.append(_Part(word=one[4]))
    return found


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _paths(parts: list[_Part]) -> list[str]:
    """Of a call whose texts are all paths: each below its descriptor, where it has one."""
    found, base = list[str](), ""
    for part in parts:
        if part.path is not None:
            base = part.path
        elif part.text is not None:
            name = part.text.decode(errors="surrogateescape")
            found.append(name if name.startswith("/") else f"{base}/{name}")
    return found


def _events(call: str, parts: list[_Part], result: str, rest: str, below: str) -> Iterator[Event]:
    root = f"{below}/"

    def ours(path: str | None) -> str | None:
        if path == below:
            return ""
        return path.removeprefix(root) if path and path.startswith(root) else None

    if call in ("mkdir", "mkdirat", "symlink", "symlinkat", "unlink", "unlinkat", "rmdir"):
        paths = _paths(parts)
        path = ours(paths[-1])
        if call.startswith("mkdir") and f"/{MARK}" in paths[-1]:
            yield Event("mark", "", data=paths[-1].partition(MARK)[2].encode())
        elif path is not None:
            kind: dict[str, Kind] = {
                "mkdir": "folder",
                "mkdirat": "folder",
                "symlink": "link",
                "symlinkat": "link",
            }
            yield Event(kind.get(call, "remove"), path)
        return
    if call in ("sync", "syncfs"):
        yield Event("flush", "")
        return
    if call in ("open", "openat", "creat"):
        (name,) = _paths(parts)
        path = ours(name)
        flags = " ".join(part.word for part in parts) + (
            " O_CREAT|O_TRUNC" if call == "creat" else ""
        )
        if path is not None and "O_CREAT" in flags:
            yield Event("make", path)
        if path is not None and "O_TRUNC" in flags:
            yield Event("cut", path)
        return
    if call in ("rename", "renameat", "renameat2", "link", "linkat"):
        old, new = map(ours, _paths(parts))
        if old is None and new is None:
            return
        if old is None or new is None:
            raise UnknownCallError(f"{call} over the edge of the folder: {_paths(parts)}")
        yield Event("rename" if call.startswith("rename") else "name", old, new)
        return
    if call in ("copy_file_range", "sendfile"):
        if any(ours(part.path) is not None for part in parts):
            raise UnknownCallError(f"{call} of a file below the folder")
        return
    path = ours(parts[0].path)
    if path is not None:
        yield _on_file(call, path, parts, result, rest)


def _on_file(call: str, path: str, parts: list[_Part], result: str, rest: str) -> Event:
    """A call on an open file or folder of ours."""
    if call in ("fsync", "fdatasync"):
        return Event("sync", path)
    if call == "ftruncate":
        return Event("cut", path, size=int(parts[1].word))
    if call not in ("write", "pwrite64", "writev"):
        raise UnknownCallError(f"{call} of {path}{rest}")
    data = b"".join(part.text for part in parts if part.text is not None)[: int(result)]
    return Event("write", path, data=data, at=int(parts[-1].word) if call == "pwrite64" else None)
