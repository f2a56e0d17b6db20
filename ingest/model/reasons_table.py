"""All reasons as a page: ``python -m ingest.model.reasons_table`` prints the tables of docs/reasons.md. Pure."""

from __future__ import annotations

import re
import sys

from ingest.model import reasons, restart_reasons

_KINDS = (
    ("Gaps", reasons.GAPS),
    ("Tables set aside", reasons.SET_ASIDE),
    ("Tables that stand still", reasons.STANDING),
    ("Tables that only the lake has", reasons.ONLY_IN_LAKE),
    ("Rows in quarantine", reasons.QUARANTINED),
    ("A stream that begins anew", restart_reasons.RESTARTS),
    ("Who merged a table", reasons.MERGED_BY),
    ("Why Spark read a table's changes", reasons.READ_BY_SPARK),
)


def table() -> str:
    """Markdown: a table for each kind."""
    lines = []
    for kind, of_kind in _KINDS:
        lines += [f"## {kind}", "", "| It says | It means | What to do |", "|---|---|---|"]
        for one in of_kind:
            code = f" (`{one.code}`)" if one.code else ""
            says = re.sub(r"\{(\w+)\}", r"*\1*", one.says)
            lines.append(f"| {says}{code} | {one.means} | {one.remedy or _nothing(one)} |")
        lines.append("")
    return "\n".join(lines)


def _nothing(reason: reasons.Reason) -> str:
    return reasons.BY_ITSELF if reason in reasons.GAPS else "nothing"


if __name__ == "__main__":
    sys.stdout.write(table())
