"""The places at which the engine meets code of the program that is no component."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from engine import Run
from tests.hostile.forks import ends, hooks_of_forks, lives_on, living_forks, starts_a_pool
from tests.hostile.metrics import amounts_of_metrics, names_of_metrics
from tests.hostile.misdeeds import Misdeed
from tests.hostile.streams import closed_streams, full_streams, hostile_streams, no_streams, prints, unreadable_streams
from tests.hostile.variables import hostile_variables, sets_variables


def no_callback(run: Run, misdeed: Misdeed) -> None:
    """Leave the run alone."""


def harmless_call(misdeed: Misdeed, number: int, component: Any) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Surroundings:
    """One place. It has one of the four parts, or several."""

    around: Callable[[Misdeed], AbstractContextManager[None]] = lambda misdeed: nullcontext()
    """Changes the process for the time of a run, or until a child process ends."""
    on_run: Callable[[Run, Misdeed], None] = no_callback
    """Gives hostile callbacks to a run that has not begun."""
    in_call: Callable[[Misdeed, int, Any], None] = harmless_call
    """What each component does, in each call. Gets the number of the input, and the component, or None for a function."""
    method: str = ""
    """The method of values, or of errors that a component raises, that is hostile."""
    every: int = 0
    """If a case takes long, or is much like another place: only one form in so many takes part in the short test, in one scenario."""


# Logging


class Writes(logging.Handler):
    """Formats each record, and drops the text."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)


@contextmanager
def root_handler(handler: logging.Handler) -> Iterator[None]:
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def filter_of_handler(misdeed: Misdeed) -> AbstractContextManager[None]:
    handler = Writes()
    handler.addFilter(misdeed)
    return root_handler(handler)


@contextmanager
def filter_of_loggers(misdeed: Misdeed) -> Iterator[None]:
    loggers = [logging.getLogger(f"engine.{name}") for name in ("runtime", "checkpoint", "transactional", "flow", "state")]
    for logger in loggers:
        logger.addFilter(misdeed)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(misdeed)


def hostile_handler(misdeed: Misdeed) -> AbstractContextManager[None]:
    handler = Writes()
    handler.emit = misdeed  # type: ignore[method-assign]
    return root_handler(handler)


def hostile_formatter(misdeed: Misdeed) -> AbstractContextManager[None]:
    handler, formatter = Writes(), logging.Formatter()
    formatter.format = misdeed  # type: ignore[method-assign]
    handler.setFormatter(formatter)
    return root_handler(handler)


@contextmanager
def record_factory(factory: Callable[..., Any]) -> Iterator[None]:
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(factory)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)


def taken_names(misdeed: Misdeed) -> AbstractContextManager[None]:
    """Make records with attributes that have our names, and are hostile."""
    usual = logging.getLogRecordFactory()

    class Hostile:
        __repr__ = __str__ = __eq__ = misdeed  # type: ignore[assignment]
        __hash__ = None  # type: ignore[assignment]

    def factory(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = usual(*arguments, **named)
        record.component, record.task = Hostile(), Hostile()
        return record

    return record_factory(factory)


@contextmanager
def handler_and_standard_error(misdeed: Misdeed) -> Iterator[None]:
    """Lose each record, and the place where the engine says so."""

    class Stream:
        write = flush = misdeed

    before, sys.stderr = sys.stderr, Stream()  # type: ignore[assignment]
    try:
        with hostile_handler(misdeed):
            yield
    finally:
        sys.stderr = before


# Callbacks


def hostile_listener(run: Run, misdeed: Misdeed) -> None:
    run.on_report.append(misdeed)


def hostile_end(run: Run, misdeed: Misdeed) -> None:
    run.on_end(lambda error: misdeed())
    run.on_end(lambda error: misdeed())


async def _never_awaited(*_: Any) -> None: ...


def coroutine_callbacks(run: Run, misdeed: Misdeed) -> None:
    """Give callbacks that return a coroutine instead of doing what they should."""
    run.on_report.append(_never_awaited)  # type: ignore[arg-type]
    run.on_end(lambda error: _never_awaited())  # type: ignore[arg-type,return-value]


def cancelling_callbacks(run: Run, misdeed: Misdeed) -> None:
    """Give callbacks that cancel the asyncio task that happens to run, and misbehave besides."""

    def cancel(*_: Any) -> Any:
        aio_task = asyncio.current_task()
        if aio_task is not None:
            aio_task.cancel()
        return misdeed()

    run.on_report.append(cancel)
    run.on_end(cancel)


SURROUNDINGS: Final = {
    "filter of a handler": Surroundings(filter_of_handler),
    "filter of loggers": Surroundings(filter_of_loggers),
    "handler": Surroundings(hostile_handler),
    "formatter": Surroundings(hostile_formatter),
    "record factory": Surroundings(record_factory),
    "names of attributes": Surroundings(taken_names),
    "standard error": Surroundings(handler_and_standard_error),
    "on_report": Surroundings(on_run=hostile_listener),
    "on_end": Surroundings(on_run=hostile_end),
    "coroutines": Surroundings(on_run=coroutine_callbacks),
    "callbacks that cancel": Surroundings(on_run=cancelling_callbacks),
    "repr of values": Surroundings(method="repr"),
    "str of values": Surroundings(method="str"),
    "hash of values": Surroundings(method="hash"),
    "eq of values": Surroundings(method="eq"),
    "str of errors": Surroundings(method="str of errors"),
    "notes of errors": Surroundings(method="notes of errors"),
    "names of metrics": Surroundings(in_call=names_of_metrics),
    "amounts of metrics": Surroundings(in_call=amounts_of_metrics),
    "context variables": Surroundings(hostile_variables, in_call=sets_variables),
    "streams": Surroundings(hostile_streams, in_call=prints),
    "unreadable streams": Surroundings(unreadable_streams, in_call=prints, every=1),
    "closed streams": Surroundings(closed_streams, in_call=prints, every=1),
    "full streams": Surroundings(full_streams, in_call=prints, every=1),
    "no streams": Surroundings(no_streams, in_call=prints, every=1),
    "forks that end": Surroundings(in_call=ends, every=2),
    "forks that live on": Surroundings(living_forks, in_call=lives_on, every=2),
    "pools that live on": Surroundings(living_forks, in_call=starts_a_pool, every=2),
    "hooks of forks": Surroundings(hooks_of_forks, in_call=lives_on, every=2),
    "everything": Surroundings(handler_and_standard_error, hostile_listener, method="repr"),
}
