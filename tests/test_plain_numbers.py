"""Numbers of users become numbers of Python at every door: metrics, settings and arguments."""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import engine
from engine import BasicBolt, Config, ConfigError, Inlet, TopologyBuilder, UsageError, spout
from engine.api.arguments import checked_count
from engine.config import SETTINGS
from engine.config.setting import SettingFault
from engine.metrics.user_metrics import Counter, Gauge
from engine.metrics.value_histogram import ValueHistogram
from engine.plain_numbers import plain_integer, plain_number
from engine.testing import run_virtual

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.guarantee("SV-12")


class Level(IntEnum):
    LOW = 3


class Whole:
    """Like a tensor of PyTorch: it has only `__index__`."""

    def __index__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return "Whole()"


INTEGERS = [3, Level.LOW, Whole(), np.int64(3), np.uint8(3), np.array(3)]
REALS = [0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.float64(0.5), np.array(0.5)]
NO_NUMBERS: list[Any] = [
    None,
    "3",
    b"3",
    3j,
    [3],
    {},
    Decimal("sNaN"),
    np.array([3, 4]),
    np.str_("3"),
    np.complex128(3),
    np.timedelta64(3, "s"),
]
BOOLS = [True, np.True_]


def is_plain(number: object) -> bool:
    return type(number) in (int, float)


@pytest.mark.parametrize("given", INTEGERS, ids=repr)
def test_an_integer_of_any_library_is_an_int(given: Any) -> None:
    assert (plain_number(given), type(plain_number(given)), plain_integer(given)) == (3, int, 3)


@pytest.mark.parametrize("given", REALS, ids=repr)
def test_a_real_number_of_any_library_is_a_float(given: Any) -> None:
    assert (plain_number(given), type(plain_number(given)), plain_integer(given)) == (0.5, float, None)


@pytest.mark.parametrize("given", [*NO_NUMBERS, *BOOLS], ids=repr)
def test_what_is_no_number_is_none(given: Any) -> None:
    assert (plain_number(given), plain_integer(given)) == (None, None)


def test_a_counter_does_not_wrap_round() -> None:
    counter = Counter()
    for _ in range(3):
        counter.add(np.uint8(200))
    assert (counter.value, type(counter.value)) == (600, int)
    counter.add(np.True_)
    counter.add(Decimal("0.5"))
    assert (counter.value, type(counter.value)) == (601.5, float)


@pytest.mark.parametrize(
    "given", [*NO_NUMBERS, math.nan, math.inf, Decimal("NaN"), Decimal("Infinity"), np.float32("inf"), 10**400], ids=repr
)
def test_metrics_refuse_what_is_no_finite_number(given: Any) -> None:
    with pytest.raises(UsageError, match="a counter cannot add"):
        Counter().add(given)
    with pytest.raises(UsageError, match="a histogram cannot record"):
        ValueHistogram().record(given)


@pytest.mark.parametrize("given", [*NO_NUMBERS, 10**400], ids=lambda given: repr(given)[:20])
def test_a_gauge_refuses_what_is_no_number(given: Any) -> None:
    with pytest.raises(UsageError, match="a gauge cannot be set to"):
        Gauge().set(given)


@pytest.mark.parametrize("given", [*INTEGERS, *REALS, *BOOLS], ids=repr)
def test_gauges_and_histograms_hold_floats(given: Any) -> None:
    gauge, histogram = Gauge(), ValueHistogram()
    gauge.set(given)
    histogram.record(given)
    read = histogram.read()
    assert all(type(value) is float for value in (gauge.value, read.total, read.minimum, read.maximum))


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.kind in (int, float)])
def test_every_setting_takes_numbers_of_any_library(name: str) -> None:
    setting = SETTINGS[name]
    made: list[Any] = [number for number in (np.int64(1), np.float32(0.5), np.int64(20), Whole()) if fits(setting.check, number)]
    assert made, "one of them is in the range"
    assert all(is_plain(setting.check(number)) for number in made)
    for wrong in (*BOOLS, math.nan, math.inf, np.float64("nan"), Decimal("NaN"), np.str_("3"), 3j):
        with pytest.raises(SettingFault, match=r"must be .*, not "):
            setting.check(wrong)


def fits(check: Callable[[object], object], value: object) -> bool:
    try:
        check(value)
    except SettingFault:
        return False
    return True


def test_arguments_and_settings_of_components_are_converted() -> None:
    @spout("n", max_retries=np.int64(2))
    def numbers() -> Any:
        yield (1,)

    class Slow(BasicBolt):
        concurrency = np.int64(1)
        tick_tuple_freq_secs = Fraction(1, 2)

        def execute(self, tup: Any) -> None:
            """Take the input."""

    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", numbers, parallelism=np.int64(2), max_spout_pending=np.uint8(7))
    builder.set_bolt("slow", Slow, threads=np.int32(0)).shuffle_grouping("numbers")
    spec = builder.build().components
    assert (spec["numbers"].parallelism, spec["numbers"].settings.max_spout_pending) == (2, 7)
    found = (spec["numbers"].parallelism, spec["numbers"].settings.max_spout_pending)
    settings = spec["slow"].settings
    assert all(map(is_plain, (*found, settings.concurrency, settings.threads, settings.tick_tuple_freq_secs)))
    assert checked_count("Inlet: max_waiting", np.int64(5), 1) == 5
    with pytest.raises(ConfigError, match="message_timeout_secs must be a number above 0"):
        Config(message_timeout_secs=np.True_)


def test_a_run_takes_numbers_of_numpy_and_stays_json() -> None:
    class Count(BasicBolt):
        def execute(self, tup: Any) -> None:
            self.context.counter("rows_good").add(np.array([True, False, True]).sum())
            self.context.counter("pixels").add(np.array([200, 100], "uint8")[0])
            self.context.gauge("share").set(np.float32(0.25))
            self.context.histogram("sizes").record(np.int16(300))

    builder = TopologyBuilder("np")
    builder.set_spout("in", lambda: Inlet("n", max_waiting=np.int64(10)))
    builder.set_bolt("count", Count).shuffle_grouping("in")

    async def main() -> tuple[dict[str, Any], str]:
        async with engine.run(builder.build(), Config(message_timeout_secs=np.float64(30), acker_executors=np.int64(1))) as run:
            run.trace(np.float32(0.5))
            for _ in range(3):
                await run.inlet("in").send((1,))
            await run.drain(np.int64(5))  # type: ignore[arg-type]
            return run.snapshot().to_dict(), run.metrics_text()

    snapshot, text = run_virtual(main)
    values = {metric["name"]: metric.get("value") for metric in json.loads(json.dumps(snapshot))["user_metrics"]}
    assert (values["rows_good"], values["pixels"], values["share"]) == (6, 600, 0.25)
    assert list(text_string_to_metric_families(text))
