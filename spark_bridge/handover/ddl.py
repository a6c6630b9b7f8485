"""Spark's DDL of a schema, parsed and printed without Spark: `host string not null, at timestamp, tags array<string>`.

No library does this correctly without a JVM. `StructType.fromDDL` of pyspark needs one. sqlglot accepts types that Spark refuses
(`map<int>`, `decimal(40)`), and drops the type of `status: int`.
"""

import re
from typing import Final, NoReturn

import pyarrow as pa
from pyarrow import types

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
"""Arrow types by Spark's name. If two names have one type, the first one is printed."""
SIMPLE_NAMES: Final = {kind: name for name, kind in reversed(SIMPLE_TYPES.items())}
"""Spark's names by Arrow type."""
DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<word>\w+)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[<>(),:]))"
)


def ddl_of(schema: pa.Schema) -> str:
    """Print a schema of `schema_of` as Spark's DDL, for `DataSource.schema()` or people.

    >>> ddl_of(pa.schema([pa.field("host", pa.string(), nullable=False), ("tags", pa.list_(pa.string()))]))
    '`host` string not null, `tags` array<string>'
    """
    return ", ".join(_field_text(field, " ") for field in schema)


def type_text(kind: pa.DataType) -> str:
    """Print a type as Spark's DDL.

    >>> type_text(pa.list_(pa.int64()))
    'array<bigint>'
    """
    simple = SIMPLE_NAMES.get(kind)
    if simple is not None:
        return simple
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    return f"struct<{', '.join(_field_text(kind.field(number), ': ') for number in range(kind.num_fields))}>"


def parse_ddl(text: str) -> list[pa.Field]:
    """Return the fields of a DDL text. Raise HandoverError with the position of the fault if it is not valid.

    >>> parse_ddl("tags array<string>, price decimal(10,2)")
    [pyarrow.Field<tags: list<item: string>>, pyarrow.Field<price: decimal128(10, 2)>]
    """
    return _Parser(text).fields(end=None)


def _field_text(field: pa.Field, separator: str) -> str:
    quoted = "`" + field.name.replace("`", "``") + "`"
    return f"{quoted}{separator}{type_text(field.type)}{'' if field.nullable else ' not null'}"


class _Parser:
    """Recursive descent parser. Each method consumes the tokens of the construct in its name."""

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
            self._refuse("a decimal with 1 to 38 digits and a scale up to the number of digits", back=1)
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
        text = f"the schema {self._text!r} cannot be read at {rest!r} (character {place}): expected {wanted}"
        raise HandoverError(text, hint='Write it in Spark\'s DDL: "host string not null, at timestamp, tags array<string>".')


def _tokens(text: str) -> "list[tuple[str, str, int]]":
    """Return (kind, word, position) of each token. Removes the backquotes of a quoted name."""
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            where = text[at:].strip()[:40]
            raise HandoverError(f"the schema {text!r} cannot be read at {where!r}", hint="Put names with spaces or signs in `backquotes`.")
        word = token[token.lastgroup]
        if token.lastgroup == "quoted":
            word = word[1:-1].replace("``", "`")
        found.append((token.lastgroup, word, token.start(token.lastgroup)))
        at = token.end()
    return found
