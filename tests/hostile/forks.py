"""Components that fork. What they fork ends at once, or lives on until the surroundings end, or until its parent does."""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from tests.hostile.misdeeds import Misdeed

FORKS_AT: Final = 2
"""The number at which a component forks."""

_living: Final = ExitStack()
"""Ends what lives on."""


def ends(misdeed: Misdeed, number: int, component: Any) -> None:
    """Fork a process that misbehaves and dies."""
    if number != FORKS_AT:
        return
    pid = os.fork()
    if pid == 0:
        try:
            misdeed()
        finally:
            os._exit(3)
    os.waitpid(pid, 0)


def lives_on(misdeed: Misdeed, number: int, component: Any) -> None:
    """Fork a process that has copies of all that the run has open, and keeps them."""
    if number != FORKS_AT:
        return
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writes)
        os.read(reads, 1)  # until nobody has the other end
        os._exit(0)
    os.close(reads)
    _living.callback(os.waitpid, pid, 0)
    _living.callback(os.close, writes)


def starts_a_pool(misdeed: Misdeed, number: int, component: Any) -> None:
    """Let a pool of forked processes work, whose workers live on."""
    if number != FORKS_AT:
        return
    pool = _living.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("fork")))
    with suppress(BaseException):
        pool.submit(misdeed).result()


@contextmanager
def living_forks(misdeed: Misdeed) -> Iterator[None]:
    """End what still lives after the run."""
    with _living.pop_all():
        yield
    _living.close()


_hooks: Final[list[Misdeed]] = []
"""What the hooks around a fork do now. Python has no way to take back such a hook, so they are registered once."""


def _call_hooks() -> None:
    for hook in _hooks:
        hook()


@contextmanager
def hooks_of_forks(misdeed: Misdeed) -> Iterator[None]:
    """Let the hooks before and after a fork misbehave. Python tells their errors to `sys.unraisablehook`."""
    if not hasattr(_call_hooks, "is_registered"):
        _call_hooks.is_registered = True  # type: ignore[attr-defined]
        os.register_at_fork(before=_call_hooks, after_in_parent=_call_hooks, after_in_child=_call_hooks)
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    _hooks.append(misdeed)
    try:
        with living_forks(misdeed):
            yield
    finally:
        _hooks.remove(misdeed)
        sys.unraisablehook = before
