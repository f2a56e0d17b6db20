"""The streaming job as a process of its own, so that it can be killed for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ingest.model.errors import Exit, IngestError


@dataclass
class Job:
    """`ingest run FILE`, started by the demo; its output goes to a log file."""

    process: subprocess.Popen[bytes]
    log: Path
    marker: Path | None

    @classmethod
    def start(
        cls,
        file: Path,
        log: Path,
        failpoint: str | None = None,
        words: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        program: str = "ingest",
    ) -> Job:
        """Start it; with a failpoint it stands still there until it is killed. ``env`` adds to ours; ``program``: the module that is run."""
        env = {**os.environ, **(env or {})}
        marker = log.with_suffix(".reached") if failpoint else None
        if failpoint and marker:
            marker.unlink(missing_ok=True)
            env |= {"INGEST_FAILPOINT": failpoint, "INGEST_FAILPOINT_REACHED": str(marker)}
        command = [
            sys.executable,
            "-m",
            program,
            "run",
            str(file),
            "--log",
            f"{log}.spark",
            *words,
        ]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                start_new_session=True,
            )
        return cls(process, log, marker)

    def refuse_dead(self) -> None:
        """Raise when it has ended by itself."""
        if self.process.poll() is not None:
            said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-4:]
            raise IngestError(
                "E-DEMO-JOB",
                f"The job ended by itself with exit code {self.process.returncode}: "
                f"{' / '.join(said)}",
                remedy=f"look for the cause in {self.log} (what the job said) and {self.log}.spark (Spark's own log).",
                exit_code=Exit.FAILED,
            )

    def reached(self) -> str | None:
        """What the failpoint wrote, once it is reached."""
        if self.marker is None or not self.marker.exists():
            return None
        return self.marker.read_text(encoding="utf-8").strip() or None

    def kill(self) -> int:
        """SIGKILL the driver and its JVM; returns the driver's exit status (-9 unless it had ended)."""
        with suppress(ProcessLookupError):  # it ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait(30)

    def stop(self) -> None:
        """Ask it to end after the batch in hand; insist after a while."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(90)
            except subprocess.TimeoutExpired:
                self.kill()

    def resident_bytes(self) -> int:
        """Resident memory of the driver and its JVM."""
        try:
            me = psutil.Process(self.process.pid)
            return sum(p.memory_info().rss for p in [me, *me.children(recursive=True)])
        except psutil.NoSuchProcess:
            return 0
