"""Spark's DDL of a schema, read without Spark: `host string not null, at timestamp, tags array<string>`."""

import re
from typing import Final, NoReturn

import pyarrow as pa

from spark_bridge.handover.errors import HandoverError

SIMPLE_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""By Spark's name; of two names of one type the first is the one to write."""
DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<word>\w+)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[<>(),:]))"
)


def fields_of(text: str) -> list[pa.Field]:
    """Return the fields of a DDL text; raise HandoverError, which says where it cannot be read.

    >>> fields_of("tags array<string>, price decimal(10,2)")
    [pyarrow.Field<tags: list<item: string>>, pyarrow.Field<price: decimal128(10, 2)>]
    """
    reader = _Reader(text)
    return reader.fields(end=None)


class _Reader:
    """Reads from left to right; each method takes what it names."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def fields(self, end: str | None) -> list[pa.Field]:
        found = [self._field()]
        while self._takes(","):
            found.append(self._field())
        if not (self._at == len(self._tokens) if end is None else self._takes(end)):
            self._refuse("',' or the end" if end is None else f"',' or {end!r}")
        return found

    def _field(self) -> pa.Field:
        kind, name = self._next("the name of a column")
        if kind not in ("quoted", "word"):
            self._refuse("the name of a column", back=1)
        self._takes(":")
        column_type = self._type()
        is_nullable = not self._takes_word("not")
        if not is_nullable and not self._takes_word("null"):
            self._refuse("'null' after 'not'")
        if self._takes_word("comment") and self._next("the text of a comment")[0] != "text":
            self._refuse("the text of a comment", back=1)
        return pa.field(name, column_type, nullable=is_nullable)

    def _type(self) -> pa.DataType:
        kind, word = self._next("a type")
        name = word.lower()
        if kind == "word" and name in SIMPLE_TYPES:
            return SIMPLE_TYPES[name]
        if kind == "word" and name in DECIMALS:
            return self._decimal()
        if kind == "word" and name in ("array", "map", "struct"):
            self._expect("<")
            return self._nested(name)
        self._refuse(f"a type ({', '.join(SIMPLE_TYPES)}, decimal(p,s), array<…>, map<…,…>, struct<…>)", back=1)

    def _nested(self, name: str) -> pa.DataType:
        if name == "struct":
            return pa.struct(self.fields(end=">"))
        first = self._type()
        if name == "map":
            self._expect(",")
            first = pa.map_(first, self._type())
        else:
            first = pa.list_(first)
        self._expect(">")
        return first

    def _decimal(self) -> pa.DataType:
        if not self._takes("("):
            return pa.decimal128(10, 0)
        precision, scale = self._number(), 0
        if self._takes(","):
            scale = self._number()
        self._expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            self._refuse("a decimal of 1 to 38 digits, of which no more stand behind the point", back=1)
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        kind, word = self._next("a number")
        if kind != "word" or not word.isdecimal():
            self._refuse("a number", back=1)
        return int(word)

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at == len(self._tokens):
            self._refuse(wanted)
        kind, word, _ = self._tokens[self._at]
        self._at += 1
        return kind, word

    def _takes(self, sign: str) -> bool:
        is_next = self._at < len(self._tokens) and self._tokens[self._at][:2] == ("sign", sign)
        self._at += is_next
        return is_next

    def _takes_word(self, word: str) -> bool:
        is_next = self._at < len(self._tokens) and (self._tokens[self._at][0], self._tokens[self._at][1].lower()) == ("word", word)
        self._at += is_next
        return is_next

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            self._refuse(repr(sign))

    def _refuse(self, wanted: str, back: int = 0) -> NoReturn:
        at = self._at - back
        place = self._tokens[at][2] if at < len(self._tokens) else len(self._text)
        rest = self._text[place:].strip()[:40]
        text = f"the schema {self._text!r} cannot be read at {rest!r} (character {place}): {wanted} is expected there"
        raise HandoverError(text, hint='Write it as Spark does: "host string not null, at timestamp, tags array<string>".')


def _tokens(text: str) -> "list[tuple[str, str, int]]":
    """Return (kind, word, place) of each token; a name in backquotes comes without them."""
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            raise HandoverError(
                f"the schema {text!r} cannot be read at {text[at:].strip()[:40]!r}", hint="Put an odd name in `backquotes`."
            )
        word = token[token.lastgroup]
        if token.lastgroup == "quoted":
            word = word[1:-1].replace("``", "`")
        found.append((token.lastgroup, word, token.start(token.lastgroup)))
        at = token.end()
    return found
