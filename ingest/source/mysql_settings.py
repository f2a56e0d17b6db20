"""What a server has to be set to, so that its binlog holds every change whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.model.errors import IngestError

NAMES = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_value_options",
    "binlog_transaction_compression",
    "gtid_mode",
    "sql_mode",
)
"""Global variables that are looked at."""


def refuse_unfit(server: str, variables: Mapping[str, str]) -> None:
    """Raise for a binlog that does not hold every change whole and at a place of its own, and for a server whose answers are not what
    its binlog holds. ``variables``: by name, those that it has.
    """
    whole = "Its binlog would not hold every change whole; nothing was started."
    ordered = (
        "All changes of a transaction would arrive with one place in the log, which could not tell their order; "
        "nothing was started."
    )
    wanted = {
        "log_bin": ("ON", whole, "start mysqld with `log_bin=binlog`"),
        "binlog_format": ("ROW", whole, "SET PERSIST binlog_format = ROW"),
        "binlog_row_image": ("FULL", whole, "SET PERSIST binlog_row_image = FULL"),
        "binlog_row_value_options": ("", whole, "SET PERSIST binlog_row_value_options = ''"),
        "binlog_transaction_compression": (
            "OFF",
            ordered,
            "SET PERSIST binlog_transaction_compression = OFF",
        ),
    }
    for name, (value, means, remedy) in wanted.items():
        # Without the last two a server writes as if they were off.
        found = variables.get(name, value if value in ("", "OFF") else "no value")
        if found.upper() != value:
            raise IngestError(
                "E-MYSQL-BINLOG",
                f"{server} runs with {name}={found}" + (f", not {value}." if value else "."),
                means=means,
                remedy=f"{remedy}; sessions that were open before keep the old value.",
            )
    if "PAD_CHAR_TO_FULL_LENGTH" in variables.get("sql_mode", "").upper():
        raise IngestError(
            "E-MYSQL-PADS",
            f"{server} runs with sql_mode={variables['sql_mode']}.",
            means="A CHAR would be read with blanks at its end by a snapshot and without them from the binlog, so that a row with such a key could "
            "not be found again; nothing was started.",
            remedy="take PAD_CHAR_TO_FULL_LENGTH out of the server's sql_mode (SET PERSIST sql_mode = …); sessions may still set it for themselves.",
        )
