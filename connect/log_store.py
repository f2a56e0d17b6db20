"""Make ``log-store.jar`` again of its source, ``log-store/``, with the compiler that Spark carries (Janino).

For maintainers, after a change of the source or of Spark's or Delta's version: ``make relock``. The same source makes the
same bytes, which a test asks for.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from ingest.local import artefacts
from ingest.local.java import java_binary

FOLDER = Path(__file__).parent
JAR = FOLDER / "log-store.jar"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""A zip file's first moment: when it was made is no part of a class."""


def made() -> bytes:
    """The jar of the source as it is, its files not compressed: which bytes that gives depends on zlib."""
    of_spark = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
    of_ours = (jar for group in ("spark", "s3") for jar in artefacts.jars(group))
    jars = ":".join(map(str, sorted([*of_spark, *of_ours])))
    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(content, "w") as jar:
        out = Path(folder)
        subprocess.run(
            [
                java_binary(),
                "-cp",
                jars,
                "org.codehaus.commons.compiler.samples.CompilerDemo",
                *("-d", str(out), "-classpath", jars, "-encoding", "UTF-8", "-g:source,lines"),
                *map(str, sorted((FOLDER / "log-store").glob("*.java"))),
            ],
            check=True,
        )
        for file in sorted(out.rglob("*.class")):
            entry = zipfile.ZipInfo(str(file.relative_to(out)), _LONG_AGO)
            jar.writestr(entry, file.read_bytes())
    return content.getvalue()


if __name__ == "__main__":
    JAR.write_bytes(made())
    print(f"{JAR}: {JAR.stat().st_size} bytes")
