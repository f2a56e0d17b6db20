"""A plan for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ingest.observe.pipeline_plan import PipelinePlan

_STYLES = {
    "waits": "yellow",
    "resync": "yellow",
    "gap": "yellow",
    "rewrite": "yellow",
    "rows go": "red",
    "refused": "bold red",
}


def plan_table(plan: PipelinePlan) -> Group:
    """The connector's part, a line per statement, and what to do."""
    parts: list[RenderableType] = []
    settings = ", ".join(key for key, _, _ in plan.connector.changes[:8])
    does = {
        "create": "is made",
        "change": f"changes: {settings}",
        "nothing": "is as the pipeline file says",
    }
    parts.append(Text(f"connector  {does[plan.connector.action]}"))
    parts += _merges(plan)
    parts += [Text(f"target     {name}: {target}") for name, target in plan.targets.items()]
    if not plan.effects:
        parts.append(Text("lake       nothing is pending"))
        return Group(*parts)
    table = Table(box=None, pad_edge=False)
    for name in ("table", "cost", "written", "what it does", "because of"):
        table.add_column(name, justify="right" if name == "written" else "left")
    for effect in plan.effects:
        style = next((_STYLES[cost] for cost in effect.costs if cost in _STYLES), "")
        table.add_row(
            Text(effect.table),
            Text(" + ".join(effect.costs), style=style),
            f"{effect.bytes / 1e6:,.1f} MB" if effect.bytes else "",
            Text(effect.sentence),
            Text(effect.cause[:60], style="dim"),
        )
    parts += [
        table,
        Text("next: ingest run FILE does it, each statement at its place", style="dim"),
    ]
    return Group(*parts)


def _merges(plan: PipelinePlan) -> list[Text]:
    """How many tables delta-rs merges, and why Spark does the others."""
    direct = sum(choice.engine == "delta-rs" for choice in plan.engines.values())
    lines = [f"{direct} of {len(plan.engines)} tables by delta-rs"] if plan.engines else []
    why: dict[str, list[str]] = {}
    for name, choice in plan.engines.items():
        if choice.engine == "spark":
            why.setdefault(choice.because, []).append(name)
    lines += [
        f"{len(names)} by Spark, since {because}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        for because, names in why.items()
    ]
    return [Text(f"{'' if at else 'merges':<10} {line}") for at, line in enumerate(lines)]
