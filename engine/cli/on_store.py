"""What `state` and `transactions` have in common: the store of a URL, and what is wrong with it in words."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

from engine.errors import StateError
from engine.state import StateProvider, provider_of

WRONG: Final = 2


def on_store(url: str, work: Callable[[StateProvider], Coroutine[Any, Any, int | None]]) -> int:
    """Do it; say in words what is wrong with the store. Return the exit status."""
    from engine.cli.show_error import show_error

    try:
        return asyncio.run(work(_provider(url))) or 0
    except StateError as error:
        show_error(error)
        return WRONG


def _provider(url: str) -> StateProvider:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where `package.module:function` is, and what pickles name
    return provider_of(url)
