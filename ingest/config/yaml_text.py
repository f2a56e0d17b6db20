"""YAML as a pipeline file has it: a name that stands twice is refused, where YAML's own reader takes the last and forgets the first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml


def read(text: str) -> Any:
    """What it says. Raises ``yaml.YAMLError``."""
    for mapping in _mappings(yaml.compose(text, Loader=yaml.SafeLoader)):
        seen = set[tuple[str, str]]()
        for name, _ in mapping.value:
            what = (name.tag, str(name.value))
            if what in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"`{name.value}` stands here for the second time", name.start_mark
                )
            seen.add(what)
    return yaml.safe_load(text)


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _mappings(value)
