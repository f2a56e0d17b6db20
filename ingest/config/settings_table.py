"""All settings as a page: ``python -m ingest.config.settings_table`` prints the tables of docs/settings.md. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.config.pipeline_file import Pipeline

_PLACES = {"tables": "PATTERN", "flows": "NAME", "inputs": "NAME", "connections": "NAME"}
"""What stands for a name that the user gives."""
_KINDS = {"integer": "a whole number", "number": "a number", "string": "a text", "boolean": "`true`, `false`"}  # fmt: skip
_SECRET = "Password"  # noqa: S105 (the name of a model)
"""The section whose two settings stand in one line."""

Schema = Mapping[str, Any]


def table() -> str:
    """Markdown: what stands at the top of the file, then a table for each section."""
    schema = Pipeline.model_json_schema()
    plain, sections = list[str](), list[str]()
    for name, of in schema["properties"].items():
        rows = [*_rows(name, of, schema["$defs"], needed=name in schema["required"])]
        if [path for path, *_ in rows] == [name]:
            plain += map(_line, rows)
        else:
            what = _section(of, schema["$defs"]).get("description", "").split("\n")[0]
            sections += [f"## {name}", "", what, "", *_HEAD, *map(_line, rows), ""]
    return "\n".join([*_HEAD, *plain, "", *sections])


_HEAD = ("| Setting | Takes | Default | What it is |", "|---|---|---|---|")

Row = tuple[str, str, str, str]


def _line(row: Row) -> str:
    path, kind, default, said = (one.replace("|", "\\|").replace("\n", " ") for one in row)
    return f"| `{path}` | {kind} | {default} | {said} |"


def _rows(path: str, of: Schema, defs: Schema, *, needed: bool) -> Iterator[Row]:
    """Of a setting, or of all that are in a section."""
    section = _section(of, defs)
    if "properties" not in section:
        default = "needed" if needed else _default(of)
        yield path, _kind(of, defs), default, of.get("description", "")
        return
    place = _place(path, of)
    for name, inner in section["properties"].items():
        required = name in section.get("required", ())
        yield from _rows(f"{place}.{name}", inner, defs, needed=required)


def _place(path: str, of: Schema) -> str:
    one = _without_null(of)
    if one.get("type") == "array":
        return f"{path}[]"
    named = one.get("type") == "object" and "additionalProperties" in one
    return f"{path}.{_PLACES.get(path.rpartition('.')[2], 'NAME')}" if named else path


def _without_null(of: Schema) -> Schema:
    several = [one for one in of.get("anyOf", ()) if one.get("type") != "null"]
    return several[0] if len(several) == 1 else of


def _section(of: Schema, defs: Schema) -> Schema:
    """The model that a setting is of, or that each of its members is of; itself where it is of none."""
    one = _without_null(of)
    if one.get("type") == "array":
        one = one.get("items", {})
    elif isinstance(one.get("additionalProperties"), dict):
        one = one["additionalProperties"]
    name = one.get("$ref", "").rpartition("/")[2]
    return of if name in ("", _SECRET) else defs[name]


def _kind(of: Schema, defs: Schema) -> str:
    one = _without_null(of)
    if one.get("$ref", "").endswith(f"/{_SECRET}"):
        return "`{file: …}` or `{env: …}`"
    if "$ref" in one:
        return _kind(defs[one["$ref"].rpartition("/")[2]], defs)
    if "enum" in one or "const" in one:
        return ", ".join(f"`{value}`" for value in one.get("enum", [one.get("const")]))
    if "anyOf" in one:
        kinds = (_kind(each, defs) for each in one["anyOf"] if each.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    if one.get("type") == "array":
        return f"a list: {_kind(one.get('items', {}), defs)}"
    if one.get("type") == "object" and "properties" in one:
        return "a section of " + ", ".join(f"`{name}`" for name in one["properties"])
    if one.get("type") == "object":
        inner = one.get("additionalProperties")
        return f"names with {_kind(inner, defs)}" if isinstance(inner, dict) else "names"
    return _KINDS.get(str(one.get("type")), "a text")


def _default(of: Schema) -> str:
    default = of.get("default")
    return "" if default in (None, [], {}, "") else f"`{json.dumps(default, ensure_ascii=False)}`"


if __name__ == "__main__":
    sys.stdout.write(table())
