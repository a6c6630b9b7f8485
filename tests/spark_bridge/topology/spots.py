"""A topology file that defines the classes of its values, and the fixtures that import it. conftest.py imports them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from engine.cli.console.user_file import UserFile
from engine.errors import TopologyFileError

FILE = '''
import enum
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine import BasicBolt
from engine.transactional import Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.transactional.batch_topologies import Batches

LOCK = threading.Lock()
with open(__file__ + ".imports", "a") as imports:
    imports.write("x")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Size:
    width: int
    color: Color


class Spot(NamedTuple):
    x: int
    size: Size


class Locked:
    """Cannot be sent, because a method uses a lock."""

    def __enter__(self):
        return LOCK.__enter__()


class Make(BasicBolt):
    output_fields = ("color", "spot")

    def execute(self, tup):
        color = list(Color)[tup["number"] % 2]
        yield (color, Spot(tup["number"], Size(10, color)))


class Check(BasicBolt):
    output_fields = "spot"

    def execute(self, tup):
        spot = tup["spot"]
        assert type(spot) is Spot and type(spot.size) is Size and spot.size.color is tup["color"]
        assert spot.size == Size(10, tup["color"])
        yield (spot,)


class Colors(BasicBolt):
    """Gets values of classes of the file from the emitters in the engine's process."""

    output_fields = ("color", "spot")

    def execute(self, tup):
        assert tup["number"] in (Color.RED, Color.BLUE)
        yield (tup["number"], Spot(tup["number"].value, Size(10, tup["number"])))


class Keep(Committer):
    def __init__(self, kept):
        self.kept = kept
        self.spots = []

    def execute(self, tup):
        self.spots.append(tup["spot"])

    def finish_batch(self):
        with LOCK:
            self.kept.extend(self.spots)


KEPT = []


def topology():
    builder = TransactionalTopologyBuilder("spots", "numbers", MemoryTransactionalSpout([(0,), (1,), (2,)], "number", take=3))
    builder.set_bolt("make", Make).shuffle_grouping("numbers")
    return _with_check(builder)


def sent():
    builder = TransactionalTopologyBuilder("sent", "numbers", Batches([[Color.RED, Color.BLUE]]))
    builder.set_bolt("make", Colors).shuffle_grouping("numbers")
    return _with_check(builder)


def _with_check(builder):
    builder.set_bolt("check", Check).fields_grouping("make", "color")
    builder.set_committer("keep", lambda: Keep(KEPT)).global_grouping("check")
    return builder.build()


def wrong():
    """Return the spots that are not those of this file."""
    return [spot for spot in KEPT if type(spot) is not Spot or type(spot.size) is not Size or spot.size.color not in Color]
'''


@pytest.fixture
def spots_file(tmp_path: Path) -> Path:
    path = tmp_path / "spots.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def spots(spots_file: Path) -> Iterator[ModuleType]:
    """Return the imported file, as the command line imports it."""
    path = list(sys.path)
    module = UserFile(spots_file, "topology", TopologyFileError).load()
    yield module
    sys.path[:] = path
    del sys.modules[module.__name__]
