"""Values and columns of it that the lake has no place for."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from tests.kills.faults.act import command
from tests.poison.ward import SICK, Ward, way


@way
def two_dates_in_one(ward: Ward) -> Iterator[None]:
    """A zero date where NULL is not allowed: Debezium writes 1970-01-01 for both, so it waits in quarantine. The row is
    mended at the source, and the table taken again.
    """
    ward.sql("SET sql_mode = ''", f"UPDATE {ward.sick} SET day = '0000-00-00' WHERE id = 20")
    ward.write()
    yield
    ward.sql(f"UPDATE {ward.sick} SET day = '2024-03-01' WHERE id = 20")
    command(ward, "resync", str(ward.file), ward.sick)


@way
def column_without_a_place(ward: Ward) -> Iterator[None]:
    """A column that is named as ours: the table is set aside until it is gone."""
    ward.sql(f"ALTER TABLE {ward.sick} ADD COLUMN _ingest INT")
    ward.write()
    yield
    ward.sql(f"ALTER TABLE {ward.sick} DROP COLUMN _ingest")
    ward.write()


@way
def type_that_pauses(ward: Ward) -> Iterator[None]:
    """Another type, before which a policy lets the table pause. The line that `ingest status` shows lets it pass."""
    kind = "BIGINT" if _type_of_n(ward) == "int" else "INT"
    ward.sql(f"ALTER TABLE {ward.sick} MODIFY n {kind}")
    ward.write()
    yield
    (paused,) = [one for one in ward.status()["paused"] if one["table"] == ward.sick]
    ward.halt()
    content = yaml.safe_load(ward.file.read_text())
    content["tables"][f"{ward.name}.{SICK}"]["approved"] = paused["position"]
    ward.file.write_text(yaml.safe_dump(content))
    ward.again()


def _type_of_n(ward: Ward) -> str:
    ((kind,),) = ward.sql(
        "SELECT data_type FROM information_schema.columns WHERE column_name = 'n' AND "
        f"table_schema = '{ward.name}' AND table_name = '{SICK}'"
    )
    return str(kind)
