"""Metric families as OpenMetrics 1.0 text, which Prometheus and its kin scrape."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from engine.metrics.family import Family, Sample

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""What an HTTP answer that carries this text calls it."""

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def render(families: Iterable[Family]) -> str:
    """Return the text of the families, in their order, ending in `# EOF`; a family without a sample is left out.

    >>> print(render([Family("words", "counter", "Words seen.", (Sample({"task": "3"}, 7, "_total"),))]), end="")
    # TYPE words counter
    # HELP words Words seen.
    words_total{task="3"} 7
    # EOF
    """
    lines = [line for family in families if family.samples for line in _lines(family)]
    return "\n".join([*lines, "# EOF", ""])


def number_text(value: float) -> str:
    """Return a number as OpenMetrics spells it: `7`, `0.25`, `1e+30`, `+Inf`, `NaN`."""
    try:
        number = float(value)
    except OverflowError:  # an int that a counter summed up
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _lines(family: Family) -> Iterator[str]:
    yield f"# TYPE {family.name} {family.kind}"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}"
    yield f"# HELP {family.name} {family.help.translate(_ESCAPES)}"
    for sample in family.samples:
        yield _sample(family.name, sample)


def _sample(name: str, sample: Sample) -> str:
    return f"{name}{sample.suffix}{_labels(sample.labels)} {number_text(sample.value)}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels.items()) + "}"
