"""Bolts with classes of a plugin that only their process can import, as a plugin folder that `prepare` adds to its path."""

import logging
import sys
from enum import StrEnum
from types import ModuleType
from typing import Any

from engine import BasicBolt, Bolt, FatalError, StatefulBasicBolt, StatefulBolt, Tuple
from tests.processes.bolts import LOGGER, Pairs

PLUGIN = "plugin_of_a_child"
SOURCE = """
class Thing:
    def __init__(self, number):
        self.number = number
    def __repr__(self):
        return f"Thing({self.number})"

class PluginError(Exception):
    pass
"""


def load_plugin() -> Any:
    """Import the plugin in this process."""
    if PLUGIN not in sys.modules:
        plugin = sys.modules[PLUGIN] = ModuleType(PLUGIN)
        exec(SOURCE, plugin.__dict__)
    return sys.modules[PLUGIN]


class EmitsThings(BasicBolt):
    """Emits each number, and a thing of the plugin in place of some of them."""

    output_fields = "number"

    def __init__(self, every: int) -> None:
        self.every = every

    def prepare(self) -> None:
        self.plugin = load_plugin()

    def execute(self, tup: Tuple) -> tuple[Any]:
        number = tup["number"]
        return (self.plugin.Thing(number) if number % self.every == 1 else number,)


class EmitsAThingAtItsEnd(Bolt):
    """Emits each number, and a thing of the plugin before another number in `cleanup`."""

    output_fields = "number"

    def prepare(self) -> None:
        self.plugin = load_plugin()

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["number"],), anchors=tup)
        self.collector.ack(tup)

    def cleanup(self) -> None:
        self.collector.emit((self.plugin.Thing(1),))
        self.collector.emit((7,))


class PairsOfThings(Pairs):
    """Emits a thing of the plugin before one of the pairs."""

    def prepare(self) -> None:
        super().prepare()
        self.plugin = load_plugin()

    async def finish(self, pair: list[Tuple]) -> None:
        if pair[0]["number"] == 2:
            self.collector.emit((self.plugin.Thing(2),), anchors=pair)
        await super().finish(pair)


class LogsThings(BasicBolt):
    """Logs a thing of the plugin as a value, and with a name and a key of odd classes."""

    def prepare(self) -> None:
        self.plugin = load_plugin()

    def execute(self, tup: Tuple) -> None:
        number = tup["number"]
        extra = {"thing": self.plugin.Thing(number), "code": 404, odd_names().KEY: "a key", "shown": ShownOddly()}
        LOGGER.warning("%s failed", number, extra=extra)


class RaisesPluginError(BasicBolt):
    """Raises an error of the plugin where `where` says."""

    def __init__(self, where: str) -> None:
        self.where = where

    def prepare(self) -> None:
        if self.where == "prepare":
            self._end()

    def execute(self, tup: Tuple) -> None:
        raise load_plugin().PluginError("odd") if self.where == "execute" else self._end()

    def _end(self) -> Any:
        raise FatalError(odd_names().KEY, hint=odd_names().KEY) from load_plugin().PluginError("odd")


class StatefulPluginError(StatefulBolt):
    """Raises an error of the plugin from a hook."""

    def init_state(self, state: Any) -> None:
        self.state = state

    def pre_prepare(self, txid: int) -> None:
        raise load_plugin().PluginError("odd")

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["number"], 1)
        self.collector.ack(tup)


class KeepsThings(StatefulBasicBolt):
    """Keeps a thing of the plugin for each number, and emits the number of the thing that it had."""

    output_fields = "number"

    def __init__(self, has_plugin: bool = True) -> None:
        self.has_plugin = has_plugin

    def prepare(self) -> None:
        if self.has_plugin:
            load_plugin()

    def execute(self, tup: Tuple) -> tuple[int | None]:
        number = tup["number"]
        had = self.state.get(number)
        self.state.put(number, load_plugin().Thing(number))
        return (None if had is None else had.number,)


class FailsOddly(Bolt):
    """Fails its inputs with a reason whose class only the child has."""

    def execute(self, tup: Tuple) -> None:
        self.collector.fail(tup, odd_names().KEY)


class CountsOddly(BasicBolt):
    """Has metrics whose names and labels are of a class that pickle cannot store."""

    def prepare(self) -> None:
        odd = odd_names()
        labels = {odd.LABEL: odd.VALUE}
        self.count = self.context.counter(odd.NAME, **labels)
        self.context.gauge("gone", shop=odd.VALUE)
        self.context.drop_metric("gone", shop=odd.VALUE)

    def execute(self, tup: Tuple) -> None:
        self.count.add()


class ShownOddly:
    """A value whose text is of a class that pickle cannot store, and that cannot be stored itself."""

    def __repr__(self) -> str:
        return odd_names().VALUE

    def __reduce__(self) -> str:
        raise TypeError("it holds a socket")


def odd_names() -> Any:
    """Return names of a class that pickle cannot find."""

    class Odd(StrEnum):
        KEY = "key"
        NAME = "orders"
        LABEL = "shop"
        VALUE = "north"

    return Odd


class LogsOddly(BasicBolt):
    """Logs with a logger and a level whose names pickle cannot store."""

    def execute(self, tup: Tuple) -> None:
        logging.addLevelName(31, odd_names().VALUE)
        logging.getLogger(odd_names().NAME).log(31, "%s failed", tup["number"])


def thing() -> Any:
    """Return a value of the plugin."""
    return load_plugin().Thing(1)
