"""`python -m bench.run MODULE:FUNCTION [NAME=VALUE ...]` calls a function and prints its figures as one line of JSON.

A value is JSON, or a text if it is not valid JSON. Coroutines run on uvloop if it is installed, like the engine by default.
Each measured run is such a process. Peers run in other environments, so this module imports the standard library only.
"""

import asyncio
import importlib
import inspect
import json
import sys
from typing import Any

from bench.measuring import new_event_loop


def main(function: str, *words: str) -> None:
    """Call the function. Print its figures unless it returns None."""
    module, _, name = function.partition(":")
    result = getattr(importlib.import_module(module), name)(**dict(map(_argument, words)))
    if inspect.iscoroutine(result):
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            result = runner.run(result)
    print(json.dumps({} if result is None else result))


def _argument(word: str) -> tuple[str, Any]:
    name, _, value = word.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    if len(sys.argv) < 2 or ":" not in sys.argv[1]:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
