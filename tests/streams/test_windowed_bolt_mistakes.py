"""What `build()` refuses of a `WindowedBolt`, and what ends its run (WI-7)."""

import asyncio
from typing import Any

import pytest

from engine import Fields, TopologyBuilder, bolt
from engine.errors import ComponentError, TopologyError
from engine.event_time import EventTime
from engine.streams import WindowedBolt, minutes, tumbling
from engine.testing import Feeder
from tests.streams.test_windowed_bolt import VISITS, ByPage, ByUser, played

pytestmark = pytest.mark.guarantee("WI-7")


class Raises(ByPage):
    def execute_window(self, window: Any) -> None:
        raise ValueError("no")


class Cancels(ByPage):
    def execute_window(self, window: Any) -> None:
        raise asyncio.CancelledError


class NoTime(WindowedBolt):
    window = tumbling(minutes(1))
    output_fields = ByPage.output_fields

    def execute_window(self, window: Any) -> None:
        """Not called."""


class NoWindow(ByPage):
    window = 5  # type: ignore[assignment]


class Nothing(WindowedBolt):
    window, time_field, key_field = tumbling(minutes(1)), "at", "page"
    output_fields = ByPage.output_fields


class Yields(ByPage):
    def execute_window(self, window: Any) -> Any:
        yield window


class WrongField(ByPage):
    time_field = "when"


class WrongKey(ByPage):
    key_field = "host"


class WrongUnit(ByPage):
    unit = "x"  # type: ignore[assignment]


class NoKey(ByPage):
    key_field = None


class NarrowLate(ByPage):
    output_fields: Any = {"default": Fields("page", "start", "users"), "late": Fields("visit")}


class WithKeyOf(ByPage):
    def key_of(self, key: Any) -> Any:
        return key[0]


class TooWide(ByPage):
    def execute_window(self, window: Any) -> None:
        self.collector.emit((1,))


class Awaits(ByPage):
    async def execute_window(self, window: Any) -> None:  # type: ignore[override]
        """Not called."""


async def later() -> None:
    """Not awaited."""


class ReturnsCoroutine(ByPage):
    def execute_window(self, window: Any) -> Any:
        return later()


class Returns(ByPage):
    def execute_window(self, window: Any) -> Any:
        return [window.key]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Raises, r"stage 'windows': the result of '/' from 2026-03-28T12:00:00\+00:00 .*: ValueError: no"),
        (Cancels, r"stage 'windows': the result of '/' from .*: CancelledError"),
        (TooWide, r"stage 'windows': the result of '/' from .*: UsageError"),
        (ReturnsCoroutine, "UsageError: execute_window returned <coroutine object later"),
        (Returns, r"UsageError: execute_window returned \['/'\]"),
    ],
)
def test_errors_of_a_window_end_the_run_with_its_name(kind: Any, text: str) -> None:
    with pytest.raises(ComponentError, match=text):
        played(kind, *VISITS)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Awaits, "execute_window of Awaits is no plain function: async def"),
        (NoTime, "NoTime has no time_field"),
        (NoWindow, "window of NoWindow is 5"),
        (Nothing, "Nothing has no execute_window"),
        (Yields, "execute_window of Yields is no plain function: generator"),
        (WrongField, r"stream 'default' of 'visits' has no field 'when', which is the time_field of WrongField \(it has: page, user, at\)"),
        (WrongKey, "no field 'host', which is the key_field of WrongKey"),
        (WrongUnit, "unit of WrongUnit is 'x'"),
        (NoKey, "it has 2 tasks and a fields grouping, but NoKey has no key_field"),
        (ByUser, r"Use fields_grouping\('visits', 'user'\), the key_field of ByUser"),
        (NarrowLate, "the stream 'late' of NarrowLate needs two fields"),
        (WithKeyOf, "WithKeyOf has a key_of, but the keys of its windows are the values of its key_field"),
    ],
)
def test_mistakes_are_named_when_the_topology_is_built(kind: Any, text: str) -> None:
    with pytest.raises(TopologyError, match=rf"bolt 'windows': .*{text}"):
        played(kind, *VISITS)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"processes": True}, "windows do not work with processes=True"),
        ({"tick_tuple_freq_secs": 1.0}, "ByPage gets windows, and no ticks"),
    ],
)
def test_settings_that_windows_cannot_have_are_refused(settings: Any, text: str) -> None:
    builder = TopologyBuilder("pages")
    builder.set_spout("visits", Feeder("page", "user", "at"), event_time=EventTime("at"))
    builder.set_bolt("windows", ByPage, **settings).fields_grouping("visits", "page")
    with pytest.raises(TopologyError, match=text):
        builder.build()


def test_each_source_needs_an_event_time() -> None:
    @bolt("page", "user", "at")
    def same(tup: Any) -> Any:
        return tup.values

    builder = TopologyBuilder("pages")
    builder.set_spout("timed", Feeder("page", "user", "at"), event_time=EventTime("at"))
    builder.set_spout("plain", Feeder("page", "user", "at"))
    builder.set_bolt("same", same).shuffle_grouping("plain")
    builder.set_bolt("windows", ByPage).fields_grouping("timed", "page").fields_grouping("same", "page")
    with pytest.raises(TopologyError, match="bolt 'windows' has windows, but spout 'plain' in front of it has no event time") as raised:
        builder.build()
    assert len(raised.value.faults) == 1


class ByInit(WindowedBolt):
    output_fields = ByPage.output_fields
    execute_window = ByPage.execute_window

    def __init__(self, key_field: str | None, window: Any) -> None:
        self.window, self.time_field, self.key_field = window, "at", key_field  # type: ignore[misc]


def test_attributes_may_be_set_by_init() -> None:
    found = played(lambda: ByInit("page", tumbling(minutes(1))), *VISITS)["default"]
    assert sorted(found) == sorted(played(ByPage, *VISITS)["default"])


def test_what_a_factory_sets_is_checked_by_build() -> None:
    with pytest.raises(TopologyError, match="bolt 'windows': window of ByInit is 5"):
        played(lambda: ByInit("page", 5), *VISITS)


class NoWindowByInit(ByInit):
    def __init__(self) -> None:
        super().__init__("page", 5)


class NoKeyByInit(ByInit):
    def __init__(self) -> None:
        super().__init__(None, tumbling(minutes(1)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (NoWindowByInit, "bolt 'windows': window of NoWindowByInit is 5"),
        (NoKeyByInit, "bolt 'windows' has 2 tasks, and NoKeyByInit has no key_field"),
    ],
)
def test_what_the_init_of_a_class_sets_is_checked_at_the_start(kind: Any, text: str) -> None:
    with pytest.raises(ComponentError, match=text):
        played(kind, *VISITS)
