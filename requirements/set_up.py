"""Make `.venv` from the locks, with progress on the screen. Standard library only; run by make.

    python3 requirements/set_up.py

Every package is checked against the SHA-256 in the lock. Brings a Java along where there is none.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PIP = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input"]


def main() -> None:
    """All steps; ends with exit code 2 and one sentence when a step cannot be done."""
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        stop(
            f"ingest needs Python 3.10 to 3.13, and this is {platform.python_version()}; "
            "name another: make PYTHON=/path/to/python3 demo"
        )
    print(
        f"setting up .venv with Python {platform.python_version()}; a second run skips this",
        flush=True,
    )
    make_venv()
    lock = ROOT / "requirements" / "dev.lock"
    install("packages", ["--use-pep517", "--require-hashes", "-r", str(lock)], count(lock))
    install("ingest", ["--no-deps", "--no-build-isolation", "-e", str(ROOT)], 1)
    has_java = subprocess.run([PYTHON, "-m", "ingest.local.java"], cwd=ROOT, check=False)
    if has_java.returncode != 0:
        print("no Java 17 or newer here; fetching one as a package", flush=True)
        lock = ROOT / "requirements" / "java.lock"
        install("Java", ["--require-hashes", "-r", str(lock)], 1)


def make_venv() -> None:
    """A fresh virtual environment; installs python3-venv where Debian left it out and we may."""
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        venv.create(VENV, with_pip=True)
    except (subprocess.CalledProcessError, ImportError):
        shutil.rmtree(VENV, ignore_errors=True)
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            stop(
                "this Python has no ensurepip, so it cannot make a virtual environment; run "
                "`sudo apt install python3-venv` (or your system's equivalent) and make again"
            )
        print("installing python3-venv with apt-get …", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-q"], ["install", "-y", "-q", "python3-venv"]):
            subprocess.run(["apt-get", *words], env=environment, capture_output=True, check=False)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)


def install(what: str, words: list[str], total: int) -> None:
    """Run pip and show how far it is; its whole output is printed only when it fails."""
    started = time.monotonic()
    said: list[str] = []
    seen = 0
    pip = subprocess.Popen(
        [PYTHON, *PIP, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert pip.stdout is not None
    for line in pip.stdout:
        said.append(line)
        if line.startswith(("Collecting", "Installing collected")):
            seen = min(total, seen + 1)
            name = line.split()[1].split("=")[0] if line.startswith("Coll") else "installing …"
            show(what, seen, total, name)
    if pip.wait() != 0:
        sys.stdout.write("\n" + "".join(said[-25:]))
        stop(
            f"pip could not install {what} from the lock; see its words above. It needs the "
            "package index (or a mirror set in pip's own configuration)"
        )
    show(what, total, total, f"done in {time.monotonic() - started:.0f} s", last=True)


def show(what: str, seen: int, total: int, now: str, *, last: bool = False) -> None:
    """One line that is rewritten on a terminal; every twentieth step elsewhere."""
    line = f"  {what}: {seen} of {total}  {now}"
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\033[K{line}" + ("\n" if last else ""))
    elif last or seen % 20 == 0:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def count(lock: Path) -> int:
    """Packages of a lock that this Python may need (an upper bound: markers are not read)."""
    names = {line.split("==")[0] for line in lock.read_text().splitlines() if line[:1].isalpha()}
    return len(names)


def stop(sentence: str) -> None:
    """Say what is wrong and end."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
