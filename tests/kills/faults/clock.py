"""The machine's time of day is set while jobs run: some processes are told another one than the machine's."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kills.faults.act import expect, fault, restart, said, stand_by, stop, suspend
from tests.kills.lab import Lab

_SOURCE = Path(__file__).with_name("other_time.c")
_HOURS = 3600


class _Clock:
    """Of the processes that are started with ``env``. ``library``: of ``other_time.c``."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.set(0)
        self.env = {"LD_PRELOAD": str(library), "OTHER_TIME": str(file)}

    def set(self, seconds: int) -> None:
        """By so many from the machine's."""
        self._file.write_text(str(seconds))


def _library(folder: Path) -> Path:
    made = folder / "other_time.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(made), str(_SOURCE), "-ldl"], check=True)
    return made


@fault
def clocks_are_set(lab: Lab) -> str:
    """Forward and back, of the job and of its standby, one by one: nobody takes over from the living, and the standby does from
    one that is suspended.
    """
    stop(lab)
    library = _library(lab.folder)
    of_job, of_standby = (
        _Clock(library, lab.folder / one) for one in ("job.clock", "standby.clock")
    )
    before, lab.environment = lab.environment, {**lab.environment, **of_job.env}
    try:
        restart(lab)
        first = lab.job
        assert first is not None
        standby = stand_by(lab, {**lab.env, **of_standby.env})
        for clock in (of_job, of_standby):
            for by in (3 * _HOURS, -3 * _HOURS, 0):
                clock.set(by)
                lab.change()
                lab.until_equal()
                expect(lab.job is first and first.process.poll() is None, said(lab)[-500:])
                told = standby.log.read_text()
                expect("taking over" not in told, told[-500:])
        expect("clock was set back" in said(lab), said(lab)[-500:])
        of_standby.set(-3 * _HOURS)
        of_job.set(3 * _HOURS)
        suspend(lab, first, standby)
        stop(lab)
    finally:
        lab.environment = before
    restart(lab)
    return "equal each time; only from the suspended one was taken over"
