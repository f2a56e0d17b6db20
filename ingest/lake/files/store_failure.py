"""What a failure says of an object store, by the words of Rust's `object_store`, through which obstore and delta-rs go. Pure.

delta-rs has no class of its own for it: one call raises an ``OSError``, the next a ``DeltaError``, a query a bare ``Exception``. So its text is read,
from its beginning and by known words alone: behind others a row's value may stand.
"""

from __future__ import annotations

import re

_ARROW = re.compile(r"\s*(?:\x1b\[\d*m)?(?:↳|->)(?:\x1b\[\d*m)?\s*")
"""delta-rs prints each cause on a line of its own, where others put a colon."""
_AROUND = "|".join(
    (
        *(f"{kind} error" for kind in ("Arrow", "Delta", "External", "Generic", "Kernel")),
        *(f"{kind} error" for kind in ("DataFusion", "Execution", "Object Store", "Parquet")),
        "External",
        "Failed to read delta log object",
        r"Failed to fetch metadata for file [^\s:]+",
    )
)
_STORES = re.compile(
    rf"(?:(?:{_AROUND}): )*"
    r"(?:Generic \w+ error|The operation lacked (?:the necessary privileges|valid authentication credentials)\b)"
)
_TRIED = re.compile(r"Error performing (?P<what>[A-Z]+ [^\s?]+)\S* in \S+?(?:, after .*?)? +- ")
_DENIED = re.compile(
    r"The operation lacked |\b40(?:1 Unauthorized|3 Forbidden)\b|"
    r"<Code>(?:AccessDenied|ExpiredToken|InvalidAccessKeyId|InvalidToken|SignatureDoesNotMatch|TokenRefreshRequired)</Code>"
)
"""Amazon answers 400 where a key has expired, and 403 to a list, which is a failure of no kind in particular."""
_ANSWER = re.compile(r"<(?:\?xml|Error)\b.*?(?:<Code>(?P<code>\w+)</Code>.*|$)")


def is_of_a_store(failure: BaseException) -> bool:
    """Whether a failure of delta-rs is that of the store below it: away, or one that lets nobody in. What a store does not have is none."""
    return _STORES.match(_plain(failure)) is not None


def is_denial(failure: BaseException) -> bool:
    """Whether the store, whose failure this is, has answered that this is not allowed."""
    return _DENIED.search(_plain(failure)) is not None


def said(failure: BaseException) -> str:
    """For people: what was asked of it last, and what came of that. Of an answer in XML the code alone: the rest may say which key it was."""
    text = _plain(failure)
    tried = list(_TRIED.finditer(text))
    if tried:
        text = f"{tried[-1]['what']}: {text[tried[-1].end() :]}"
    return _ANSWER.sub(lambda answer: answer["code"] or "", text)[:300].rstrip(".: ")


def _plain(failure: BaseException) -> str:
    """In one line, without what only its makers read."""
    text = str(failure).partition("\n\nDebug source")[0]
    return " ".join(_ARROW.sub(": ", text).split())
