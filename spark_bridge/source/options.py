"""Options of the data source, parsed from text."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from spark_bridge.handover import HandoverError

Table: TypeAlias = Literal["rows", "rejects"]
Starting: TypeAlias = Literal["committed", "earliest"] | int
STORAGE: Final = "storage."
PATH: Final = "path"
PARTITION_BYTES: Final = 16 << 20
NAMES: Final = (
    "consumer",
    "fromTxid",
    "maxPartitionBytes",
    "maxRowsPerBatch",
    "maxTransactionsPerBatch",
    "startingTxid",
    "storageOptions",
    "table",
    "toTxid",
)
SUFFIXES: Final = MappingProxyType({"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30})
_BYTES: Final = re.compile(r"(\d+)([bkmg]?)b?")


@dataclass(frozen=True)
class SourceOptions:
    """Options of one query. Spark pickles them for the executors."""

    folder: str
    """`load(folder)`."""
    storage: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the file system: `storage.<name>` for text, and the JSON object `storageOptions` for other types."""
    consumer: str | None = None
    starting: Starting | None = None
    """`startingTxid`, the start of a new checkpoint: "committed", "earliest", or the first txid to read."""
    max_transactions: int | None = None
    """`maxTransactionsPerBatch`."""
    max_rows: int | None = None
    """`maxRowsPerBatch`. A micro-batch has at least one transaction."""
    max_partition_bytes: int = PARTITION_BYTES
    """`maxPartitionBytes`: one task reads neighbouring files up to this size. A file is never split."""
    table: Table = "rows"
    from_txid: int | None = None
    """`fromTxid`, only for `spark.read`. By default the first existing one."""
    to_txid: int | None = None
    """`toTxid`, included, only for `spark.read`. By default the newest one."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Return the options. Raise HandoverError with the wrong option and its allowed values.

        >>> SourceOptions.parse({"path": "/data/handover", "maxPartitionBytes": "4m"}).max_partition_bytes
        4194304
        """
        given = {name.lower(): value for name, value in options.items()}
        _refuse_unknown(given)
        if PATH not in given:
            raise HandoverError("no folder is given", hint='Give the hand-over folder: .load("/data/handover").')
        return cls(
            folder=given[PATH],
            storage=_storage(given),
            consumer=given.get("consumer"),
            starting=_starting(given),
            max_transactions=_number(given, "maxTransactionsPerBatch"),
            max_rows=_number(given, "maxRowsPerBatch"),
            max_partition_bytes=_bytes(given),
            table=_table(given),
            from_txid=_number(given, "fromTxid"),
            to_txid=_number(given, "toTxid"),
        )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower() for name in NAMES} | {PATH}
    unknown = sorted(name for name in given if name not in known and not name.startswith(STORAGE))
    if unknown:
        hint = f"The options are {', '.join(NAMES)}, and {STORAGE}<name> for the file system."
        raise HandoverError(f"the source has no option {unknown[0]!r}", hint=hint)


def _storage(given: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the arguments of the file system. Spark converts option names to lower case, so other names need `storageOptions`."""
    named = {name.removeprefix(STORAGE): value for name, value in given.items() if name.startswith(STORAGE)}
    try:
        typed = json.loads(given.get("storageoptions", "{}"))
    except ValueError as error:
        raise _option_error("storageOptions", given["storageoptions"], f"a JSON object ({error})") from error
    if not isinstance(typed, dict):
        raise _option_error("storageOptions", given["storageoptions"], "a JSON object")
    return {**typed, **named}


def _starting(given: Mapping[str, str]) -> Starting | None:
    text = given.get("startingtxid")
    if text in (None, "committed", "earliest"):
        return cast(Literal["committed", "earliest"] | None, text)
    if not _is_number(text):
        raise _option_error("startingTxid", text, '"committed", "earliest", or the first txid to read')
    return int(text)


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not _is_number(text):
        raise _option_error(name, text, "a whole number of at least 1")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) >= 1


def _bytes(given: Mapping[str, str]) -> int:
    text = given.get("maxpartitionbytes")
    if text is None:
        return PARTITION_BYTES
    found = _BYTES.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise _option_error("maxPartitionBytes", text, "a number of bytes, such as 16777216 or 16m")
    return int(found[1]) * SUFFIXES[found[2]]


def _table(given: Mapping[str, str]) -> Table:
    text = given.get("table", "rows")
    if text not in ("rows", "rejects"):
        raise _option_error("table", text, '"rows" or "rejects"')
    return cast(Table, text)


def _option_error(name: str, text: str, wanted: str) -> HandoverError:
    return HandoverError(f"option {name} is {text!r}", hint=f"Give {wanted}.")
