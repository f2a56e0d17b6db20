"""JSON documents in MySQL's own text. Column to column.

A snapshot brings what ``SELECT`` prints: ``{"a": [1, 5.61e-4]}``. The stream brings the same document
with the same key order, but compact and with every DOUBLE written out to its last binary digit
(``0.00056099999999999997…``; ``tests/integration/test_types.py``) and the digits of a control character's escape in upper case. One
space after each separator, MySQL's shortest form of such numbers and digits in lower case make both the same text.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

_SEPARATORS = r'(?s)\G((?:[^",:]++|".*?(?<!\\)(?:\\\\)*+")*+)([,:])\s*+'
"""Up to the next separator outside a string. Strings end at a quote after an even number of
backslashes; written without a loop per character, which would exhaust the stack on long texts."""

_TOKENS = r'(?s)".*?(?<!\\)(?:\\\\)*+"|-?+[0-9][0-9.eE+-]*+|[^"0-9-]++'
"""A string, a number, or what stands between them; together the whole document."""

_UPPER = r"\\u00[01][A-F]"
_WITH_LETTERS = ("0B", "0E", "0F", *(f"1{letter}" for letter in "ABCDEF"))
"""Control characters that have no shorter escape and a letter among their digits."""

_LONG = "[0-9.]{17}"
"""Sixteen digits or more: with fewer, a double's digits are the shortest that mean it."""

_MODULUS = 10**18
_POWERS_OF_FIVE = [5**exponent % _MODULUS for exponent in range(31)]


def json_text(raw: Column) -> Column:
    """A document as MySQL prints it; null stays null."""
    tokens = F.regexp_extract_all(raw, F.lit(_TOKENS), F.lit(0))
    numbers = F.array_join(F.transform(tokens, _number), "")
    # Tokens that are not the whole document: no JSON, and nothing of ours to change.
    whole = F.length(F.array_join(tokens, "")) == F.length(raw)
    text = F.when(raw.rlike(_LONG) & whole, numbers).otherwise(raw)
    return _let(F.regexp_replace(text, _SEPARATORS, "$1$2 "), _lower_escapes)


def _lower_escapes(written: Column) -> Column:
    """An escape begins at a backslash before which there is an even number of them."""
    text = written
    for code in _WITH_LETTERS:
        text = F.regexp_replace(text, rf"(?<!\\)((?:\\\\)*+)\\u00{code}", rf"$1\\u00{code.lower()}")
    return F.when(written.rlike(_UPPER), text).otherwise(written)


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """``body`` over a value that is computed, and stands in the plan, once."""
    return F.element_at(F.transform(F.array(value), body), 1)


def _number(token: Column) -> Column:
    """One token: a DOUBLE that is written out becomes the shortest text that means it.

    JSON also holds 64-bit integers and DECIMALs, which stay as they are. An integer beyond 64 bits
    can only be a DOUBLE. With a fraction, a DECIMAL has at most 30 digits in it; up to there the text
    has to be the very expansion of the double.
    """
    digits = F.regexp_replace(token, "[-.]", "")
    limit = F.when(token.startswith("-"), f"0{2**63}").otherwise(str(2**64 - 1))
    beyond = (F.length(digits) > 20) | ((F.length(digits) == 20) & (digits > limit))
    fraction = F.length(F.regexp_extract(token, r"\.([0-9]*)$", 1))
    long = F.length(F.regexp_replace(digits, "^0+", "")) > 15
    return (
        F.when(~token.rlike(r"^-?[0-9]{16,}$|^-?[0-9]+\.[0-9]+$"), token)
        .when(fraction == 0, F.when(beyond, _shortest(token)).otherwise(token))
        .when(long & ((fraction > 30) | _is_expansion(token, digits, fraction)), _shortest(token))
        .otherwise(token)
    )


def _is_expansion(token: Column, digits: Column, fraction: Column) -> Column:
    """True when a number with 1 to 30 fraction digits is a double that Debezium has written out to its last digit (and
    that MySQL would print in its shortest form).

    A double is m · 2^-k with an odd m, so it has exactly k fraction digits, and its digits without the
    point are m · 5^k. The nearest double agrees in the first 15 digits; here the last 18 are compared.
    """
    powers = F.array(*[F.lit(value).cast("decimal(18,0)") for value in _POWERS_OF_FIVE])

    def compare(hexadecimal: Column) -> Column:
        exponent = F.regexp_extract(hexadecimal, r"p(-?[0-9]+)$", 1).try_cast("int")
        fraction_bits = F.regexp_replace(
            F.regexp_extract(hexadecimal, r"^0x1\.([0-9a-f]*)p", 1), "0+$", ""
        )
        return _let(
            F.struct(exponent.alias("exponent"), fraction_bits.alias("bits")),
            lambda parts: _let(_odd(parts.getField("bits")), lambda odd: agrees(parts, odd)),
        )

    def agrees(parts: Column, odd: Column) -> Column:
        k = 4 * F.length(parts.getField("bits")) - odd.getField("even") - parts.getField("exponent")
        product = odd.getField("value").cast("decimal(18,0)") * F.element_at(powers, fraction + 1)
        tail = F.pmod(product, F.lit(_MODULUS).cast("decimal(19,0)")).cast("string")
        ours = F.lpad(F.substring(digits, -18, 18), 18, "0")
        return (k == fraction) & (F.lpad(tail, 18, "0") == ours)

    magnitude = F.abs(token.cast("double"))
    return _let(F.reflect(F.lit("java.lang.Double"), F.lit("toHexString"), magnitude), compare)


def _odd(bits: Column) -> Column:
    """Hexadecimal digits after the leading 1, without trailing zeros, to the odd number (below 2^53,
    so exact as a double) and how many zero bits were taken off its end.
    """
    last = F.conv(F.substring(bits, -1, 1), 16, 10).try_cast("int")
    even = (
        F.when((bits == "") | (last % 2 == 1), 0)
        .when(last % 4 == 2, 1)
        .when(last % 8 == 4, 2)
        .otherwise(3)
    )
    whole = F.conv(F.concat(F.lit("1"), bits), 16, 10).try_cast("bigint")
    return F.struct((whole / F.pow(F.lit(2.0), even)).alias("value"), even.alias("even"))


def _shortest(token: Column) -> Column:
    """MySQL's text of the double: shortest digits that round back, with an exponent where MySQL
    writes one (below 10^-15 and from 10^15 on, or 10^16 with a fraction: seen on 3,000 values). Java
    writes at least two digits, so a few of the very smallest, such as 5e-324, keep one more.
    """
    # Java's own Double.toString is not the shortest before Java 19; this one is, and Spark ships it.
    schubfach = F.lit("com.fasterxml.jackson.core.io.schubfach.DoubleToDecimal")
    return _let(F.reflect(schubfach, F.lit("toString"), token.cast("double")), _as_mysql)


def _as_mysql(java: Column) -> Column:
    """Java's ``-1.5E-20`` to MySQL's ``-1.5e-20``."""
    whole = F.regexp_extract(java, r"^(-?[0-9])\.", 1)
    rest = F.regexp_replace(F.regexp_extract(java, r"\.([0-9]+)E", 1), "^0$", "")
    exponent = F.regexp_extract(java, r"E(-?[0-9]+)$", 1).try_cast("int")
    zeros = F.repeat(F.lit("0"), -exponent - 1)
    small = F.concat(F.regexp_replace(whole, "[0-9]", "0."), zeros, F.substring(whole, -1, 1), rest)
    large = F.concat(
        whole, F.substring(rest, 1, exponent), F.lit("."), F.substr(rest, exponent + 1)
    )
    fraction = F.when(rest == "", "").otherwise(F.concat(F.lit("."), rest))
    scientific = F.concat(whole, fraction, F.lit("e"), exponent.cast("string"))
    return (
        F.when(exponent.isNull(), java)  # between 10^-3 and 10^7 both write it plainly
        .when((exponent < 0) & (exponent > -16), small)
        .when((exponent > 0) & (exponent < F.length(rest)) & (exponent < 16), large)
        .otherwise(scientific)
    )
