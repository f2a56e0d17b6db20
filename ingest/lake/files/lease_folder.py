"""What a lease's folder says: the newest term, who took it, and where its counter stands."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.lake.files.owner import Owner
from ingest.lake.files.storage import Files

RELEASED = "released"
"""In the place of the counter: the holder has given the lease back."""
UNFENCED = " unfenced"
"""Behind either: the holder's term is not in the tables yet, and whoever was before it may still live."""


@dataclass(frozen=True)
class Look:
    """A lease's folder at one moment: the newest term, and its counter (:func:`beat`). A holder that lives is one of whom two looks differ."""

    term: int
    beat: str

    @property
    def is_free(self) -> bool:
        """Nobody has ever taken the lease, or whoever did has given it back."""
        return self.term == 0 or self.beat.removesuffix(UNFENCED) == RELEASED

    @property
    def owes_fence(self) -> bool:
        """Whoever follows has to fence in this holder's place, though this one itself is gone. True where the holder ended before it said anything."""
        return self.term > 0 and not (self.beat == RELEASED or self.beat.isdigit())


def look(files: Files) -> Look:
    """Now."""
    term = newest(files)
    return Look(term, beat(files, term))


def newest(files: Files) -> int:
    """The newest term; 0 where nobody has ever taken the lease."""
    names = (name.partition(".") for name in files.names(""))
    return max((int(n) for n, _, end in names if n.isdigit() and end == "json"), default=0)


def owner(files: Files, term: int) -> Owner | None:
    """Whom a term's file names. None where it names nobody: a power cut may leave it empty or cut off. Such an
    owner may live, so its counter is watched.
    """
    return Owner.from_json(_read(files, f"{term}.json")) if term else None


def beat(files: Files, term: int) -> str:
    """A term's counter, or :data:`RELEASED`; empty where there is none."""
    return _read(files, f"{term}.beat") if term else ""


def _read(files: Files, name: str) -> str:
    try:
        return files.read(name) or ""
    except UnicodeDecodeError:  # what a power cut has left is no text
        return ""
