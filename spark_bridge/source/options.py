"""The options of the source, as text; read once, all of them."""

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
    """What a query has been told. It goes to the executors, so it is pickled."""

    folder: str
    """`load(folder)`."""
    storage: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the file system: `storage.<name>` as text, and `storageOptions`, a JSON object, where they are no text."""
    consumer: str | None = None
    starting: Starting | None = None
    """`startingTxid`: where a new checkpoint begins: "committed", "earliest", or the first txid that is read."""
    max_transactions: int | None = None
    """`maxTransactionsPerBatch`."""
    max_rows: int | None = None
    """`maxRowsPerBatch`: a micro-batch takes at least one transaction."""
    max_partition_bytes: int = PARTITION_BYTES
    """`maxPartitionBytes`: neighbouring files up to this size are read by one task; a file is never split."""
    table: Table = "rows"
    from_txid: int | None = None
    """`fromTxid`, of `spark.read` alone; the first there is by default."""
    to_txid: int | None = None
    """`toTxid`, likewise and included; the newest by default."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Return them; raise HandoverError, which names the option and what it may be.

        >>> SourceOptions.parse({"path": "/data/handover", "maxPartitionBytes": "4m"}).max_partition_bytes
        4194304
        """
        given = {name.lower(): value for name, value in options.items()}
        _refuse_unknown(given)
        if PATH not in given:
            raise HandoverError("no folder is given", hint='Name the hand-over folder: .load("/data/handover").')
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
        hint = f"There are {', '.join(NAMES)}, and {STORAGE}<name> for the file system."
        raise HandoverError(f"the source has no option {unknown[0]!r}", hint=hint)


def _storage(given: Mapping[str, str]) -> Mapping[str, Any]:
    """Spark makes names lower case: an argument that is not written so comes in `storageOptions`."""
    named = {name.removeprefix(STORAGE): value for name, value in given.items() if name.startswith(STORAGE)}
    try:
        typed = json.loads(given.get("storageoptions", "{}"))
    except ValueError as error:
        raise _refused("storageOptions", given["storageoptions"], f"a JSON object ({error})") from error
    if not isinstance(typed, dict):
        raise _refused("storageOptions", given["storageoptions"], "a JSON object")
    return {**typed, **named}


def _starting(given: Mapping[str, str]) -> Starting | None:
    text = given.get("startingtxid")
    if text in (None, "committed", "earliest"):
        return cast(Literal["committed", "earliest"] | None, text)
    if not _is_number(text):
        raise _refused("startingTxid", text, '"committed", "earliest", or the first txid to read')
    return int(text)


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not _is_number(text):
        raise _refused(name, text, "a whole number from 1 on")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) >= 1


def _bytes(given: Mapping[str, str]) -> int:
    text = given.get("maxpartitionbytes")
    if text is None:
        return PARTITION_BYTES
    found = _BYTES.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise _refused("maxPartitionBytes", text, "a number of bytes, such as 16777216 or 16m")
    return int(found[1]) * SUFFIXES[found[2]]


def _table(given: Mapping[str, str]) -> Table:
    text = given.get("table", "rows")
    if text not in ("rows", "rejects"):
        raise _refused("table", text, '"rows" or "rejects"')
    return cast(Table, text)


def _refused(name: str, text: str, wanted: str) -> HandoverError:
    return HandoverError(f"option {name} is {text!r}", hint=f"It is {wanted}.")
