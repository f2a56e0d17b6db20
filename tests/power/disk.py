"""A disk that was written to, as a power cut may leave it. Pure, but for :func:`Disk.lay_out`.

Files and folders are what POSIX promises and no more: a file's content is on the disk when it was synced, a name when its
folder was. What was not may be there, or not, or in part: each effect by itself, a later one without an earlier one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from tests.power.trace import Event

Fate = Literal["kept", "lost", "half"]
Way = Literal["lost", "kept", "part"]
"""What becomes of unsynced effects: all lost, all kept, or each by lot."""


@dataclass
class File:
    """``synced``: the content that is surely on the disk; None where nothing is."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytes | None = None


@dataclass
class Folder:
    """``now``, ``synced``: name to what it is the name of."""

    now: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)


Node = File | Folder


class Disk:
    """A folder, empty at first, and what became of it."""

    def __init__(self) -> None:
        self.root = Folder()

    def take(self, event: Event) -> None:
        """One effect more."""
        getattr(self, f"_{event.kind}")(event)

    def after(self, way: Way, rng: random.Random) -> dict[str, bytes | None]:
        """Path to content, None for a folder, of what is there after a cut of power now."""
        found = dict[str, bytes | None]()
        self._collect(self.root, "", _FATES[way](rng), found)
        return found

    def _collect(
        self, folder: Folder, path: str, fate: Callable[[], Fate], found: dict[str, bytes | None]
    ) -> None:
        for name in sorted({*folder.now, *folder.synced}):
            now, was = folder.now.get(name), folder.synced.get(name)
            node = was if now is was or fate() == "lost" else now
            here = f"{path}/{name}" if path else name
            if isinstance(node, Folder):
                found[here] = None
                self._collect(node, here, fate, found)
            elif node is not None:
                found[here] = _content(node, fate)

    def _make(self, event: Event) -> None:
        folder, name = self._place(event.path)
        folder.now.setdefault(name, File())

    def _folder(self, event: Event) -> None:
        folder, name = self._place(event.path)
        folder.now.setdefault(name, Folder())

    def _cut(self, event: Event) -> None:
        content = self._file(event.path).now
        del content[event.size :]
        content.extend(bytes(event.size - len(content)))

    def _write(self, event: Event) -> None:
        content = self._file(event.path).now
        at = len(content) if event.at is None else event.at
        content.extend(bytes(max(0, at - len(content))))
        content[at : at + len(event.data)] = event.data

    def _sync(self, event: Event) -> None:
        node = self._node(event.path)
        if isinstance(node, Folder):
            node.synced = dict(node.now)
        else:
            node.synced = bytes(node.now)

    def _flush(self, event: Event) -> None:
        """All that anybody has written."""
        left: list[Node] = [self.root]
        while left:
            node = left.pop()
            if isinstance(node, Folder):
                node.synced = dict(node.now)
                left += node.now.values()
            else:
                node.synced = bytes(node.now)

    def _name(self, event: Event) -> None:
        folder, name = self._place(event.to)
        folder.now[name] = self._node(event.path)

    def _rename(self, event: Event) -> None:
        old, name = self._place(event.path)
        folder, new = self._place(event.to)
        folder.now[new] = old.now.pop(name)

    def _remove(self, event: Event) -> None:
        folder, name = self._place(event.path)
        folder.now.pop(name, None)

    def _link(self, event: Event) -> None:
        """Of a workspace, which a start removes unseen."""

    def _mark(self, event: Event) -> None:
        """What the job said."""

    def _place(self, path: str) -> tuple[Folder, str]:
        pure = PurePosixPath(path)
        parent = str(pure.parent)
        node = self.root if parent == "." else self._node(parent)
        assert isinstance(node, Folder), path
        return node, pure.name

    def _node(self, path: str) -> Node:
        node: Node = self.root
        for part in PurePosixPath(path).parts:
            assert isinstance(node, Folder), path
            node = node.now[part]
        return node

    def _file(self, path: str) -> File:
        node = self._node(path)
        assert isinstance(node, File), path
        return node


def lay_out(found: dict[str, bytes | None], folder: Path) -> None:
    """Make these files and folders below a folder."""
    folder.mkdir(parents=True)
    for path, content in found.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)


def held(folder: Path) -> Iterator[tuple[str, bytes | None]]:
    """What a real folder holds, in the same terms; no symbolic links."""
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            yield str(path.relative_to(folder)), None if path.is_dir() else path.read_bytes()


def _content(file: File, fate: Callable[[], Fate]) -> bytes:
    now = bytes(file.now)
    if file.synced == now:
        return now
    what = fate()
    if what == "kept":
        return now
    return now[: len(now) // 2] if what == "half" else file.synced or b""


def _by_lot(rng: random.Random) -> Callable[[], Fate]:
    return lambda: rng.choice(("kept", "lost", "half"))


_FATES: dict[Way, Callable[[random.Random], Callable[[], Fate]]] = {
    "lost": lambda _: lambda: "lost",
    "kept": lambda _: lambda: "kept",
    "part": _by_lot,
}
