"""Its Delta table in the lake is not what it was, by another program's hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pyarrow as pa
from deltalake import write_deltalake

from ingest.lake.delta import delta_log
from tests.poison.ward import Ward, way


@way
def file_gone(ward: Ward) -> Iterator[None]:
    """Its data files are gone, and are brought back."""
    hidden = ward.folder / "hidden"
    hidden.mkdir()
    for file in ward.path.glob("*.parquet"):
        file.rename(hidden / file.name)
    ward.write()
    yield
    for file in hidden.iterdir():
        file.rename(ward.path / file.name)
    hidden.rmdir()
    ward.again()


@way
def cut_off_commit(ward: Ward) -> Iterator[None]:
    """The newest entry of its log is cut off. What was in it nobody knows, so its folder is moved away."""
    entry = ward.path / delta_log.commit_name(delta_log.newest(ward.path))
    entry.write_bytes(entry.read_bytes()[:40])
    ward.write()
    yield
    _moved_away(ward)


@way
def others_schema(ward: Ward) -> Iterator[None]:
    """Another program has written it anew, with other columns. It is restored to the version before."""
    known = ward.entry().tables[ward.sick].version
    rows = pa.table({"id": ["a", "b"], "other": [1.5, 2.5]})
    write_deltalake(str(ward.path), rows, mode="overwrite", schema_mode="overwrite")
    ward.write()
    yield
    ward.halt()
    ward.delta().restore(known)
    ward.again()


@way
def others_check(ward: Ward) -> Iterator[None]:
    """Another program has added a constraint that its next changes fail. It is taken away."""
    ward.delta().alter.add_constraint({"few": "n < 100"})
    ward.sql(f"UPDATE {ward.sick} SET n = 1000 WHERE id = 1")
    yield
    ward.halt()
    ward.delta().alter.drop_constraint("few")
    ward.again()


@way
def feature_nobody_knows(ward: Ward) -> Iterator[None]:
    """Another program has switched a feature on that nobody here writes. Its folder is moved away."""
    action = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["ofTheFuture"],
            "writerFeatures": ["ofTheFuture"],
        }
    }
    info = {"commitInfo": {"timestamp": delta_log.now_ms(), "operation": "SET TBLPROPERTIES"}}
    delta_log.write(ward.path, delta_log.newest(ward.path) + 1, [action, info])
    ward.write()
    yield
    _moved_away(ward)


@way
def folder_is_a_file(ward: Ward) -> Iterator[None]:
    """Its folder is gone, and a file of that name is there. The file is moved away."""
    ward.path.rename(ward.folder / "was")
    ward.path.write_text(json.dumps("not a table"))
    ward.write()
    yield
    ward.halt()
    ward.path.unlink()
    (ward.folder / "was").rename(ward.path)
    ward.again()


def _moved_away(ward: Ward) -> None:
    ward.halt()
    shutil.rmtree(ward.path)
    ward.again()
