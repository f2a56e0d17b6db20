"""Who may write: one job per lake, by lease and fence.

A job takes the lease by creating the next term's file, which only one can, and shows that it lives
by moving a counter. Nobody's clock is compared with another's, and the time of day is not looked at: a
watcher looks at the counter again and again, and whether it stood still at all of these looks is what counts.

The lease alone cannot stop a job that was suspended and wakes up in the middle of a commit. So a
successor that takes over without a clean release puts its term into every table (see
``commit.Committer.fence``); Delta then refuses or skips whatever the predecessor still tries. Until it has, its
counter says so: were it to end before that, whoever follows it does that in its place.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from py4j.protocol import Py4JError

from ingest.lake.files import lease_folder
from ingest.lake.files.lease_folder import RELEASED, UNFENCED, Look
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.lake.files.owner import Owner, process
from ingest.lake.files.storage import PART, Files
from ingest.model.errors import Exit, IngestError

BEAT_EVERY = 2.0
"""Seconds between two movements of a holder's counter."""
EXPIRES_AFTER = 12.0
"""Seconds without a movement before a holder counts as gone. Six beats: a pause of the machine for
some seconds must not cost the lease, and a standby must have taken over within 30 s."""

_UNSEEN = 1000
"""Terms that may have ended before they published anything, where the folder that counts them is lost or an older copy."""

_UNNAMED = "a job whose file in the lease's folder cannot be read"

_UNWRITABLE = (OSError, Py4JError, LakeAwayError, LakeDeniedError)
"""How a disk fails, an object store, and Spark, through which all others are reached."""


@dataclass(frozen=True)
class Term:
    """A granted lease. ``fence``: a holder before did not release it, may still be alive, and nobody has fenced it; one
    whose process is gone from this very machine cannot wake up.
    """

    number: int
    fence: bool


class LeaseLostError(IngestError):
    """A successor has taken over; nothing may be committed any more."""

    def __init__(self, by: str) -> None:
        super().__init__(
            "E-LEASE-LOST",
            f"Another job has taken over this lake: {by}.",
            means="This job stops without committing anything more; the other one goes on from the "
            "last published batch, nothing is lost.",
            remedy="nothing, if the other job is meant to run; else stop it and run this one again.",
            exit_code=Exit.FAILED,
        )


@dataclass
class Lease:
    """The lease of one lake. ``files``: its lease folder."""

    files: Files
    say: Callable[[str], None]
    gives_up: Callable[[BaseException], bool] = lambda _: False
    """Of a store's failure: whether it is no use to stand by for its end."""
    written: Callable[[], int] = lambda: 0
    """The newest term that the lake's manifest names."""
    _term: int = 0
    _owed: str = ""
    """:data:`UNFENCED` until the fence is there that this term has to put."""
    _lost: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _beating: threading.Thread | None = None

    def acquire(self, *, standby: bool, stop: threading.Event) -> Term | None:
        """Take the lease; None when ``stop`` was set while waiting.

        Raises :class:`IngestError` when a living job holds it, or a store does not answer, unless ``standby``, which waits.
        """
        here = Owner.this_process()
        told = set[str]()
        while not stop.is_set():
            try:
                term = self._tried(here, told, stop, standby=standby)
            except (LakeAwayError, LakeDeniedError) as failure:
                if not standby or self.gives_up(failure):
                    raise
                # Who stands by for days is to be there when the store is again; the watch begins anew then.
                self._once(told, failure.what)
                stop.wait(BEAT_EVERY)
                continue
            if term is not None:
                return term
        return None

    def _tried(
        self, here: Owner, told: set[str], stop: threading.Event, *, standby: bool
    ) -> Term | None:
        """One look, and what follows from it; None where it is to be looked again."""
        held = lease_folder.look(self.files)
        owner = lease_folder.owner(self.files, held.term)
        if held.is_free:
            return self._follow(held, here, fence=held.owes_fence)
        gone = owner is not None and owner.is_surely_gone(here, process(owner.pid))
        if not gone and standby:
            self._once(told, f"standing by: {owner or _UNNAMED} holds the lease (term {held.term})")
        if not gone and not self._stood_still(held, stop, standby=standby):
            if standby or stop.is_set():
                return None
            raise _held(owner, held.term)
        if stop.is_set():
            return None
        term = self._follow(held, here, fence=not gone or held.owes_fence)
        if term is None:
            return None
        why = "is gone" if gone else f"has not moved for {EXPIRES_AFTER:.0f} s"
        self.say(f"taking over: {owner or _UNNAMED} {why}")
        return term

    def _once(self, told: set[str], what: str) -> None:
        if what not in told:
            told.add(what)
            self.say(what)

    def refuse_lost(self) -> None:
        """Raise :class:`LeaseLostError` when there is a successor. Asked before every commit."""
        if self._lost.is_set() or lease_folder.newest(self.files) > self._term:
            self._lost.set()
            newest = lease_folder.newest(self.files)
            raise LeaseLostError(str(lease_folder.owner(self.files, newest) or _UNNAMED))

    def fenced(self) -> None:
        """The fence is there that the term was granted with."""
        self._owed = ""

    def release(self) -> None:
        """Give it back, so that the next job need not wait. Where that fails it is said: what ended the run is not to
        be hidden, and the next job notices by itself that this one is gone.
        """
        self._ended.set()
        if self._beating:
            self._beating.join(BEAT_EVERY * 2)
        if self._term and not self._lost.is_set():
            try:
                self.files.write(f"{self._term}.beat", f"{RELEASED}{self._owed}")
            except _UNWRITABLE as failure:
                why = getattr(failure, "strerror", None) or getattr(failure, "what", None)
                self.say(f"the lease was not given back: {why or type(failure).__name__}")

    def _follow(self, held: Look, owner: Owner, *, fence: bool) -> Term | None:
        """The term behind the newest; None where it is to be looked again. Where the lake names a later one the folder is lost, or an older copy: by a lower term nothing could be
        committed, as by one that was succeeded; and whoever held the later one may live.
        """
        written = self.written()
        if written <= held.term:
            return self._take(held.term + 1, owner, fence=fence)
        if (
            lease_folder.look(self.files) != held
        ):  # somebody took a term meanwhile, and has published
            return None
        self.say(
            f"the lease's folder knows of {held.term:,} terms, and the lake of {written:,}: it is lost or an older copy"
        )
        return self._take(written + _UNSEEN, owner, fence=True)

    def _take(self, number: int, owner: Owner, *, fence: bool) -> Term | None:
        """None where another has the term."""
        name = f"{number}.json"
        if not self.files.create(name, owner.as_json()):
            return None
        if self._is_over(number):
            # This process stood still between its look and here, and a later holder has swept the file of whoever had won.
            self.files.delete(name)
            return None
        # The term is won, and its counter moves from here on: were it given up for what fails behind this, whoever looks, this very
        # process too, would see a holder that lives, and wait for it for good. What is not written now the next beat writes.
        self._term, self._owed = number, UNFENCED if fence else ""
        with suppress(*_UNWRITABLE):
            self.files.write(f"{number}.beat", f"0{self._owed}")
        self._beating = threading.Thread(target=self._keep_beating, daemon=True, name="lease")
        self._beating.start()
        with suppress(*_UNWRITABLE):
            self._sweep()
        return Term(number, fence)

    def _is_over(self, number: int) -> bool:
        """Where the store does not answer now, whoever acts asks it again (:meth:`refuse_lost`)."""
        try:
            return lease_folder.newest(self.files) > number
        except _UNWRITABLE:
            return False

    def _sweep(self) -> None:
        """What earlier terms have left, but for the one before, which tells who was: also what holders were writing when
        they died. Who wins a term that was swept so finds that there are later ones (``_take``). What cannot be removed the next holder removes.
        """
        for name in self.files.names(""):
            number = name.partition(".")[0]
            if not number.isdigit() or int(number) >= self._term:
                continue
            if int(number) < self._term - 1 or PART.fullmatch(name):
                self.files.delete(name)

    def _keep_beating(self) -> None:
        count = 0
        while not self._ended.wait(BEAT_EVERY):
            count += 1
            try:
                if lease_folder.newest(self.files) > self._term:
                    self._lost.set()
                    return
                self.files.write(f"{self._term}.beat", f"{count}{self._owed}", lasting=False)
            except _UNWRITABLE:  # the next commit will say so
                continue

    def _stood_still(self, held: Look, stop: threading.Event, *, standby: bool) -> bool:
        """Watch the counter that a living holder keeps raising. True when it stood still for ``EXPIRES_AFTER`` seconds.

        By looks, each after a pause of its own, and by no clock: while this process or the whole machine was suspended
        nobody has looked, so that this is not taken for the holder's silence.
        """
        pause = 0.5 if standby else 0.2
        for _ in range(math.ceil(EXPIRES_AFTER / pause)):
            if stop.wait(pause):
                return False
            if lease_folder.look(self.files) != held:
                return False
        return True


def _held(owner: Owner | None, number: int) -> IngestError:
    return IngestError(
        "E-LEASE-HELD",
        f"Another job already keeps this lake: {owner or _UNNAMED} (term {number}).",
        means="Two jobs on one lake could undo each other's work; nothing was started.",
        remedy="stop that job first, or wait behind it as a hot standby: `ingest run FILE "
        "--standby`.",
    )
