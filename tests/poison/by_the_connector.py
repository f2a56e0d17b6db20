"""Changes and statements of it at which the connector's task fails."""

from __future__ import annotations

from collections.abc import Iterator

from tests.kills.faults.act import command
from tests.poison.ward import Ward, stopping_way, way


@way
def row_of_another_image(ward: Ward) -> Iterator[None]:
    """A session that writes rows without all of their columns: the connector leaves the table out, the next run takes it whole."""
    ward.sql(
        "SET SESSION binlog_row_image = 'MINIMAL'", f"UPDATE {ward.sick} SET n = 7 WHERE id = 16"
    )
    ward.write()
    yield
    ward.again()


@way
def record_too_large(ward: Ward) -> Iterator[None]:
    """A row beyond what the producer sends, of which the connector leaves the table out. It becomes smaller at the source."""
    ward.sql(f"UPDATE {ward.sick} SET big = REPEAT('z', 3000000) WHERE id = 17")
    ward.write()
    yield
    ward.sql(f"UPDATE {ward.sick} SET big = 'small' WHERE id = 17")
    ward.again()


@stopping_way
def statement_nobody_parses(ward: Ward) -> Iterator[None]:
    """A statement that Debezium's parser does not know. It parses those of tables that it leaves out, too."""
    ward.sql(
        "SET SESSION sql_mode = 'ANSI_QUOTES'",
        f'ALTER TABLE {ward.sick} ADD COLUMN "not parsed" INT',
    )
    ward.write()
    yield
    _all_again(ward)


def _all_again(ward: Ward) -> None:
    ward.halt()
    command(ward, "resync", str(ward.file), "--all")
    ward.start()
