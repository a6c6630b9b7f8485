"""Components that give odd names, labels and amounts to their metrics. Whatever a metric raises is the component's own affair."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from engine import Run
from tests.hostile.misdeeds import Misdeed

GOOD: Final = "good_rows"
"""A metric of a component without fault."""

_OF_TEXTS: Final = ("__eq__", "__hash__", "__str__", "__repr__", "__reduce_ex__", "__format__", "__iter__", "__len__", "encode", "isascii")
_OF_NUMBERS: Final = ("__float__", "__index__", "__bool__", "__repr__", "__reduce_ex__", "__lt__", "__add__", "__radd__", "__eq__")


def names_of_metrics(misdeed: Misdeed, number: int, component: Any) -> None:
    """Use metrics whose names and labels are texts of a derived class. One of its methods is hostile, another one for each input."""
    if component is None:
        return
    context = component.context
    text = type("Text", (str,), {"__hash__": str.__hash__, _OF_TEXTS[number % len(_OF_TEXTS)]: misdeed})
    uses: list[Callable[[], Any]] = [
        lambda: context.counter(text(f"odd_{number}")).add(),
        lambda: context.gauge("odd", queue=text("a")).set(number),
        lambda: context.histogram("odd_secs", **{text("queue"): text("a")}).record(number),
        lambda: context.counter(text("not a name")),
        lambda: context.gauge("odd", queue=text("\udcff")),
        lambda: context.drop_metric(text(f"odd_{number - 1}")),
        lambda: context.drop_metric("odd", queue=text("a")),
    ]
    _try_all(uses)
    context.counter(GOOD).add()


def amounts_of_metrics(misdeed: Misdeed, number: int, component: Any) -> None:
    """Give amounts of odd types to each kind of metric, and numbers that are none or too large."""
    if component is None:
        return
    context, method = component.context, _OF_NUMBERS[number % len(_OF_NUMBERS)]
    odd: list[Any] = [
        type("Number", (), {method: misdeed})(),
        *(type("Number", (base,), {method: misdeed})(3) for base in (int, float, Fraction, Decimal)),
        *(math.nan, math.inf, -math.inf, 10**400, -(10**400), 1.7e308, -1, 1j, Decimal("sNaN"), Decimal("1e999"), True, "7", None),
    ]
    for amount in odd:
        _try_all(
            [
                lambda: context.counter("odd").add(amount),  # noqa: B023 - called at once
                lambda: context.gauge("odd_fill").set(amount),  # noqa: B023
                lambda: context.histogram("odd_secs").record(amount),  # noqa: B023
            ]
        )
    context.counter(GOOD).add()


def _try_all(uses: list[Callable[[], Any]]) -> None:
    for use in uses:
        with suppress(BaseException):
            use()


def judge_metrics(run: Run) -> None:
    """Raise AssertionError unless each reader gets the metrics, as plain values, and those without fault are among them."""
    found = run.snapshot().user_metrics
    for metric in found:
        texts = [metric.name, *metric.own_labels, *metric.own_labels.values()]
        assert {type(text) for text in texts} == {str}, texts
        assert metric.kind == "histogram" or type(metric.value) in (int, float), metric
    assert run.metrics_text().endswith("# EOF\n")
    assert json.loads(json.dumps(run.snapshot().to_dict()))
    good = [metric for metric in found if metric.name == GOOD]
    assert not any(metric.name.startswith("odd") for metric in found) or good
