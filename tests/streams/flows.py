"""Rows and runs that the tests of flows share."""

from typing import Any, NamedTuple

from engine import Config
from engine.streams import Flow, Stage
from engine.testing import Feeder, Finished, run_topology


class Click(NamedTuple):
    user: str
    page: str
    ms: int = 0


def clicks_of(flow: Flow, *rows: tuple[Any, ...], max_retries: int = 0, **options: Any) -> tuple[Stage[Any, Click], Feeder]:
    """Return a source of clicks, and its feeder, which has these rows and is closed."""
    feeder = Feeder("user", "page", "ms", max_retries=max_retries)
    feeder.feed_all(rows)
    feeder.close()
    return flow.stream("clicks", feeder, Click, **options), feeder


def texts_of(flow: Flow, *texts: Any, name: str = "texts", max_retries: int = 0) -> tuple[Stage[Any, str], Feeder]:
    """Return a source of texts, and its feeder, which has these texts and is closed."""
    feeder = Feeder("text", max_retries=max_retries)
    feeder.feed_all([(text,) for text in texts])
    feeder.close()
    return flow.stream(name, feeder, str), feeder


def run(flow: Flow, config: Config | None = None, **schedule: Any) -> Finished:
    """Run a flow to its end, in virtual time."""
    return run_topology(flow.topology(), config, **schedule)
