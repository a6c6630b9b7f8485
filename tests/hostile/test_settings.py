"""Values of settings that are wrong in every way: each is refused with an error that names the setting and what it expects."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from engine import Config, FileSpout, TopologyBuilder, spout
from engine.errors import EngineError
from engine.transactional import SqlCommitter, SqliteDatabase
from tests.hostile.bolts import Basic
from tests.hostile.case import FIELDS
from tests.hostile.sources import Source

STATEMENT: Final = "INSERT INTO counts (number) VALUES ($1)"


def bolt_with(**settings: Any) -> None:
    builder = TopologyBuilder("settings")
    builder.set_spout("source", Source)  # type: ignore[arg-type]  # never made
    builder.set_bolt("work", Basic, **settings).shuffle_grouping("source")
    builder.build()


def files_with(**settings: Any) -> None:
    FileSpout(**{"paths": "*.txt", **settings})


def sql_with(**arguments: Any) -> None:
    usual = {"database": SqliteDatabase(Path("counts.db")), "statement": STATEMENT, "fields": "number"}
    SqlCommitter(**{**usual, **arguments}).create()


def spout_with(**settings: Any) -> None:
    @spout(FIELDS, **settings)
    def numbers(after: Any) -> Any:
        yield 1, (1, 2)


SETTINGS: Final[dict[str, tuple[Callable[..., None], tuple[Any, ...]]]] = {
    "processing_guarantee": (Config, ("exactly-once", "", b"exactly_once", 1, ["exactly_once"])),
    "max_retries": (Config, (-1, 1.5, "many", True, [3])),
    "retries": (bolt_with, (-1, 2**16, 1.5, "3", True, [3])),
    "on_error": (bolt_with, ("diverts", "", b"divert", 1, ["divert"])),
    "paths": (files_with, ("", [], None, 1, [""], [1], b"a.txt")),
    "format": (files_with, ("lines ", "parquet", None, 1, ["csv"])),
    "fields": (files_with, ([1], ["a", "a"], [""], 1)),
    "follow": (files_with, ("yes", 2, None, [])),
    "add_fields": (files_with, ("size", ["file", "file"], [1])),
    "header": (files_with, ("yes", 2, None)),
    "delimiter": (files_with, ("", ";;", "\n", '"', None, 1)),
    "encoding": (files_with, ("utf-99", "", 1, ["utf-8"])),
    "errors": (files_with, ("never heard of", "", None, 1)),
    "max_line_bytes": (files_with, (0, -1, 1.5, "1", None)),
    "max_in_flight": (files_with, (0, -1, 1.5, "many", None)),
    "max_retries ": (files_with, (-1, 1.5, "many")),
    "on_bad": (files_with, ("divert ", "", None, 1)),
    "on_lost": (files_with, ("divert", "", None, 1)),
    "database": (sql_with, (None, "postgresql://localhost/db", 1)),
    "statement": (sql_with, (None, 1, b"INSERT", ["INSERT"])),
    "fields ": (sql_with, (None, (), [1], 1, {"number": 1})),
    "key": (sql_with, ((), [1], 1)),
    "positions": (spout_with, ("yes", 1, None)),
    "burst": (spout_with, ("yes", 1, None)),
    "restartable": (spout_with, ("yes", 1, None)),
}
"""Each setting with what takes it and wrong values. A blank behind the name tells two settings of the same name apart."""
CASES = [(name, number) for name, (_, values) in SETTINGS.items() for number in range(len(values))]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_wrong_value_is_refused_by_name_with_what_is_expected(name: str, number: int) -> None:
    takes, values = SETTINGS[name]
    with pytest.raises(EngineError) as caught:
        takes(**{name.strip(): values[number]})
    assert name.strip() in caught.value.message
    assert len(str(caught.value)) > len(name) + len(repr(values[number])) + 20
