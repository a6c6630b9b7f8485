"""The places at which the engine meets code of the program that is no component."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from engine import Run
from tests.hostile.misdeeds import Misdeed


def no_callback(run: Run, misdeed: Misdeed) -> None:
    """Leave the run alone."""


@dataclass(frozen=True)
class Surroundings:
    """One place. It has one of the three parts, or several."""

    around: Callable[[Misdeed], AbstractContextManager[None]] = lambda misdeed: nullcontext()
    """Changes the process for the time of a run, or until a child process ends."""
    on_run: Callable[[Run, Misdeed], None] = no_callback
    """Gives hostile callbacks to a run that has not begun."""
    method: str = ""
    """The method of values, or of errors that a component raises, that is hostile."""


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
    "repr of values": Surroundings(method="repr"),
    "str of values": Surroundings(method="str"),
    "hash of values": Surroundings(method="hash"),
    "eq of values": Surroundings(method="eq"),
    "str of errors": Surroundings(method="str of errors"),
    "notes of errors": Surroundings(method="notes of errors"),
    "everything": Surroundings(handler_and_standard_error, hostile_listener, "repr"),
}
