"""What one start of Java leaves behind, the next one maps; what is not whole is never taken for it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingest.local import class_archive

START = """
import sys
from pathlib import Path
from ingest.job import spark_session
spark = spark_session.create("start", master="local[1]", driver_memory="1g", conf={}, log=Path(sys.argv[1]))
java = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}")
print(spark.range(7).count(), "ArchiveClassesAtExit" in (java / "cmdline").read_text())
print("/classes/spark-" in (java / "maps").read_text())
"""
JARS = [Path("a.jar"), Path("b.jar")]

pytestmark = pytest.mark.skipif(
    not class_archive.java_options("probe", JARS), reason="a Java without an archive of its own"
)


@pytest.fixture
def cache(folder, monkeypatch):
    """A cache without an archive."""
    monkeypatch.setenv("INGEST_CACHE", str(folder))
    return folder / "classes"


def options():
    return " ".join(class_archive.java_options("program", JARS))


def left_behind():
    """The file that a start writes at its end; None where it need not."""
    name = options().partition("ArchiveClassesAtExit=")[2]
    return Path(name) if name else None


def test_a_start_of_spark_maps_what_an_earlier_one_left_behind(folder):
    def start():
        command = [sys.executable, "-c", START, str(folder / "spark.log")]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert said[0] == "7"
        return said[1:]

    deadline = time.monotonic() + 200
    # Java writes it after the process that asked has gone; and where another worker's Spark began as early, it writes it anew.
    while (said := start()) != ["False", "True"] and time.monotonic() < deadline:
        time.sleep(20)
    assert said == ["False", "True"]


def test_only_a_whole_one_of_this_boot_is_taken(cache):
    torn = left_behind()
    torn.write_bytes(bytes(1 << 20))  # its header, written last, is still missing
    other_boot = torn.with_name(torn.name.replace(class_archive._boot(), "another"))
    other_boot.write_bytes(class_archive.MAGIC)
    assert left_behind()
    assert torn.exists()
    assert not other_boot.exists()
    with torn.open("r+b") as file:
        file.write(class_archive.MAGIC)
    assert left_behind() is None
    assert [one.suffix for one in cache.iterdir()] == [".jsa"]


def test_one_of_jars_that_were_installed_anew_is_replaced(cache, monkeypatch):
    monkeypatch.chdir(cache.parent)
    JARS[0].write_bytes(b"a jar")
    left_behind().write_bytes(class_archive.MAGIC)
    assert left_behind() is None
    os.utime(JARS[0], (0, 0))
    again = left_behind()
    assert again
    again.write_bytes(class_archive.MAGIC)
    assert left_behind() is None
    assert len(list(cache.iterdir())) == 1


def test_what_was_left_half_written_or_long_unused_goes(cache):
    left = [left_behind(), cache / "spark-of-another-java.jsa"]
    for file in left:
        file.write_bytes(b"no header")
        os.utime(file, (0, 0))
    assert left_behind()
    assert not any(file.exists() for file in left)


def test_a_cache_that_cannot_be_written_is_done_without(cache):
    cache.write_text("no folder")
    assert options() == ""
