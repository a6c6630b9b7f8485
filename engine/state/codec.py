"""Codecs of values, and the canonical form of keys.

Values are MessagePack with more of Python's types, or pickle if the user chooses it. Callers encode whole lists, a thousand changes at
once, because one call in C costs less than a thousand calls.
"""

import contextlib
import io
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, Protocol, TypeAlias
from uuid import UUID

import msgpack  # type: ignore[import-untyped]

from engine.errors import StateError
from engine.safe_text import safe_str

CodecName: TypeAlias = Literal["msgpack", "pickle"]


class Unencodable(ValueError):
    """A value that a codec cannot write. The text names its type and a remedy."""


class Codec(Protocol):
    """Encodes and decodes values. `name` is stored beside the state. `format` rises when older bytes become unreadable."""

    name: CodecName
    format: int

    def encode(self, value: object) -> bytes:
        """Return the bytes of a value. Raises Unencodable."""

    def decode(self, encoded: bytes) -> Any:
        """Return a new, equal value. Raises ValueError for bytes of another codec."""


def not_stored(what: str, codec: Codec, error: Unencodable) -> StateError:
    """Return the error for a value of a state.

    The user can choose the codec only for values of a state; ledgers and keys are always MessagePack.
    """
    return StateError(
        f"{what} cannot be stored: {safe_str(error)}", hint='Or choose Config(state_codec="pickle").' if codec.name == "msgpack" else None
    )


class Encoded(bytes):
    """A value of a mutable type as bytes, so that each `get` returns a fresh copy. The garbage collector does not track bytes."""

    __slots__ = ()


class Deleted(Enum):
    """Mark of a key that a newer layer deletes."""

    DELETED = "deleted"


DELETED: Final = Deleted.DELETED

_BUFFER_BYTES: Final = 16 * 1024
_MOST_DEPTH: Final = 64
"""Largest nesting of tuples and sets, so that a written value can be read at any depth of the stack."""
_TUPLE, _SET, _FROZENSET, _BIG_INT, _DECIMAL, _UUID, _DATETIME, _DATE, _TIME, _TIMEDELTA, _ENCODED, _DELETED = range(1, 13)


class MessagePack:
    """Encodes None, bool, int of any size, float, str, bytes, list, tuple, set, frozenset and dict.

    Also encodes datetime, date, time, timedelta, Decimal and UUID. A time zone keeps only its offset. A bytearray is decoded as bytes.

    >>> codec = MessagePack()
    >>> codec.decode(codec.encode({"seen": {1, 2}, ("a", 1): 2**70}))
    {'seen': {1, 2}, ('a', 1): 1180591620717411303424}
    """

    name: CodecName = "msgpack"
    format = 1

    def __init__(self) -> None:
        self._packers: Final[list[Any]] = []
        """One packer for each depth of extension types, because a packer cannot be used inside its own hook."""
        self._depth = self._read_depth = 0

    def encode(self, value: object) -> bytes:
        if self._depth > _MOST_DEPTH:
            raise Unencodable(f"tuples or sets nested more than {_MOST_DEPTH} deep cannot be written as MessagePack")
        if self._depth == len(self._packers):
            self._packers.append(
                msgpack.Packer(default=self._pack_other, strict_types=True, unicode_errors="surrogatepass", buf_size=_BUFFER_BYTES)
            )
        packer = self._packers[self._depth]
        self._depth += 1
        try:
            packed: bytes = packer.pack(value)
        except Unencodable:
            packer.reset()
            raise
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            packer.reset()
            raise Unencodable(f"{error}; MessagePack cannot write it") from None
        finally:
            self._depth -= 1
        return packed

    def decode(self, encoded: bytes) -> Any:
        try:
            return msgpack.unpackb(encoded, ext_hook=self._unpack_other, strict_map_key=False, unicode_errors="surrogatepass")
        except (msgpack.exceptions.UnpackException, ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
            if self._read_depth:
                raise  # the outermost call translates the error
            raise ValueError(f"these bytes are not a MessagePack of the engine: {error or type(error).__name__}") from None

    def _pack_other(self, value: Any) -> msgpack.ExtType:
        writer = _WRITERS.get(type(value))
        if writer is None:
            name = type(value).__name__
            raise Unencodable(f"a value of type {name} cannot be written as MessagePack. Store its parts: a dict, a list, a str")
        code, write = writer
        written = write(value)
        return msgpack.ExtType(code, written if isinstance(written, bytes) else self.encode(written))

    def _unpack_other(self, code: int, written: bytes) -> Any:
        reader = _READERS.get(code)
        if reader is None:
            raise ValueError(f"the kind {code} is not known")
        if self._read_depth > _MOST_DEPTH:
            raise ValueError(f"tuples or sets are nested more than {_MOST_DEPTH} deep")
        self._read_depth += 1
        try:
            return reader(self, written)
        finally:
            self._read_depth -= 1


def _big_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _timedelta(value: timedelta) -> bytes:
    return f"{value.days},{value.seconds},{value.microseconds}".encode()


_WRITERS: Final[Mapping[type, tuple[int, Callable[[Any], bytes | list[Any]]]]] = {
    tuple: (_TUPLE, list),
    set: (_SET, list),
    frozenset: (_FROZENSET, list),
    int: (_BIG_INT, _big_int),
    Decimal: (_DECIMAL, lambda value: str(value).encode()),
    UUID: (_UUID, lambda value: value.bytes),
    datetime: (_DATETIME, lambda value: value.isoformat().encode() + (b"f" if value.fold else b"")),
    date: (_DATE, lambda value: value.isoformat().encode()),
    time: (_TIME, lambda value: value.isoformat().encode() + (b"f" if value.fold else b"")),
    timedelta: (_TIMEDELTA, _timedelta),
    Encoded: (_ENCODED, lambda value: value),
    Deleted: (_DELETED, lambda value: b""),
}


def _with_fold(read: Callable[[str], Any], written: bytes) -> Any:
    text = written.decode()
    return read(text[:-1]).replace(fold=1) if text.endswith("f") else read(text)


_READERS: Final[Mapping[int, Callable[[MessagePack, bytes], Any]]] = {
    _TUPLE: lambda codec, written: tuple(codec.decode(written)),
    _SET: lambda codec, written: set(codec.decode(written)),
    _FROZENSET: lambda codec, written: frozenset(codec.decode(written)),
    _BIG_INT: lambda _, written: int.from_bytes(written, "little", signed=True),
    _DECIMAL: lambda _, written: Decimal(written.decode()),
    _UUID: lambda _, written: UUID(bytes=written),
    _DATETIME: lambda _, written: _with_fold(datetime.fromisoformat, written),
    _DATE: lambda _, written: date.fromisoformat(written.decode()),
    _TIME: lambda _, written: _with_fold(time.fromisoformat, written),
    _TIMEDELTA: lambda _, written: timedelta(*map(int, written.decode().split(","))),
    _ENCODED: lambda _, written: Encoded(written),
    _DELETED: lambda _, written: DELETED,
}


class Pickle:
    """Encodes any picklable value. The user must choose it explicitly, because anyone who can write to the store can run code here."""

    name: CodecName = "pickle"
    format = 1

    def __init__(self) -> None:
        # A child process writes the classes of the program under this name. Only `multiprocessing` defines it.
        sys.modules.setdefault("__mp_main__", sys.modules["__main__"])

    def encode(self, value: object) -> bytes:
        try:
            return pickle.dumps(value, protocol=5)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the class of a value may raise anything, SystemExit too
            raise Unencodable(f"a value of type {type(value).__name__} cannot be pickled: {safe_str(error)}") from None

    def decode(self, encoded: bytes) -> Any:
        try:
            return pickle.loads(encoded)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the class of a value may raise anything, SystemExit too
            raise ValueError(f"{_wanted_class(encoded)} cannot be unpickled: {type(error).__name__}: {safe_str(error)}") from None


class _ClassNoter(pickle.Unpickler):
    """Notes the class that it has looked up last."""

    last: str | None = None

    def find_class(self, module: str, name: str) -> Any:
        self.last = f"{module}.{name}"
        return super().find_class(module, name)


def _wanted_class(encoded: bytes) -> str:
    """Return a text that names the class for which bytes cannot be unpickled."""
    noter = _ClassNoter(io.BytesIO(encoded))
    with contextlib.suppress(Exception, SystemExit):
        noter.load()
    return "these bytes" if noter.last is None else f"a value of {noter.last}"


def codec_named(name: CodecName) -> Codec:
    """Return a new codec. Raises StateError for an unknown name."""
    codecs: dict[str, Callable[[], Codec]] = {"msgpack": MessagePack, "pickle": Pickle}
    if name not in codecs:
        raise StateError(f"there is no codec {name!r}", hint=f"The codecs are {', '.join(codecs)}.")
    return codecs[name]()


PLAIN: Final = frozenset({str, bytes, int, type(None), UUID})
"""Types whose values are canonical."""
MOST_DEPTH: Final = 64
"""Largest nesting of tuples in a key. A fields grouping hashes no deeper."""
_MOST_DIGITS: Final = 4300
"""Limit for a Decimal without a fraction, which becomes an int."""


def canonical(key: object, depth: int = 0) -> Any:
    """Return the form that stands for all keys equal to this one. Raises TypeError for an invalid key.

    Equal keys have equal bytes, so `1`, `1.0` and `True` are one row (GRP-2).

    >>> canonical((True, 2.0, "a"))
    (1, 2, 'a')
    """
    kind = type(key)
    if kind in PLAIN:
        return key
    if kind is tuple:
        if depth == MOST_DEPTH:
            raise TypeError(f"a tuple nested more than {MOST_DEPTH} deep cannot be a key of a state")
        return tuple([canonical(item, depth + 1) for item in key])  # type: ignore[attr-defined]
    form = _FORMS.get(kind)
    return form(key) if form is not None else canonical(base_value(key), depth)


def canonical_keys(keys: Sequence[Any]) -> Sequence[Any]:
    """Return the canonical form of each key: the same list if all have it. Raises TypeError for an invalid key."""
    return keys if PLAIN.issuperset(map(type, keys)) else [canonical(key) for key in keys]


def base_value(key: object) -> object:
    """Return the base value of a derived type, such as a named tuple, an IntEnum or a StrEnum. Raises TypeError for other types."""
    for base in (str, bytes, int, float, tuple, Decimal, UUID, datetime):
        if isinstance(key, base):
            plain = _PLAIN_OF[base](key)
            if plain == key and hash(plain) == hash(key):
                return plain
    raise TypeError(
        f"a {type(key).__qualname__} cannot be a key of a state. Keys are None, bool, int, float, str, bytes, datetime, Decimal, UUID, "
        "and tuples of these"
    )


_PLAIN_OF: Final[dict[type, Callable[[Any], object]]] = {
    str: str.__str__,
    bytes: lambda key: bytes.__getitem__(key, slice(None)),
    int: int.__int__,
    float: float.__float__,
    tuple: lambda key: tuple.__getitem__(key, slice(None)),
    Decimal: Decimal,
    UUID: lambda key: UUID(int=key.int),
    datetime: lambda key: datetime.combine(key.date(), key.timetz()),
}


def _of_float(number: float) -> int | float:
    """Return the int of the same value, else the number."""
    if number != number:
        raise TypeError("not-a-number cannot be a key: it is not equal to itself")
    return int(number) if number.is_integer() else number


def _of_decimal(number: Decimal) -> int | float | Decimal:
    """Return the int or float of the same value, else the number without its trailing zeros."""
    if number.is_nan():
        raise TypeError("not-a-number cannot be a key: it is not equal to itself")
    if number.is_infinite():
        return float(number)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return 0
    text = "".join(map(str, digits)).rstrip("0")  # not normalize(), which rounds
    exponent += len(digits) - len(text)
    if exponent >= 0:
        if number.adjusted() >= _MOST_DIGITS:
            raise TypeError(f"a Decimal of more than {_MOST_DIGITS} digits cannot be a key of a state")
        return int(number)
    as_float = float(number)
    return as_float if as_float == number else Decimal((sign, tuple(map(int, text)), exponent))


def _of_datetime(moment: datetime) -> datetime:
    """Drop the fold, which equality ignores. Convert to UTC, because equal moments may have different offsets."""
    moment = moment.replace(fold=0)
    if moment.utcoffset() is None:
        return moment.replace(tzinfo=None)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise TypeError(f"{moment} cannot be a key of a state: in UTC it is before year 1 or after year 9999") from None


_FORMS: Final[dict[type, Callable[[Any], object]]] = {bool: int, float: _of_float, Decimal: _of_decimal, datetime: _of_datetime}
