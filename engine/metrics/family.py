"""Metric families as data: what a scrape shows, before it is text. Named tuples, which cost an import least."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

FamilyKind: TypeAlias = Literal["counter", "gauge", "histogram", "summary", "stateset"]


class Sample(NamedTuple):
    """One value: `suffix` is what the kind adds to the family's name, such as `_total` or `_bucket`."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of one metric. `unit` is the last word of the name (`seconds` of `busy_seconds`), or empty."""

    name: str
    kind: FamilyKind
    help: str
    samples: tuple[Sample, ...]
    unit: str = ""
