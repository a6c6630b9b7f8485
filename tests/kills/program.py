"""A program that dies at a named step: python -m tests.kills.program MODULE:STEPS STEP NUMBER SCRIPT [ARGUMENT...]

The step is taken from a table of steps by its name. It strikes when the process is there for the n-th time, however fast the machine is.
"""

import importlib
import runpy
import sys
from typing import Final

from tests.kills.steps import Step

FLIGHT_SECS: Final = 0.0005
"""Seconds between a sent request and the death, for a death in the middle of a call."""


def command_of(steps: str, step: str, number: int, *command: str) -> list[str]:
    """Return the command of a script and its arguments, with this death."""
    return [sys.executable, "-m", "tests.kills.program", steps, step, str(number), *command]


def main() -> None:
    """Arm the step and run the script."""
    table, step, number, *sys.argv = sys.argv[1:]
    module, _, name = table.partition(":")
    steps: dict[str, Step] = getattr(importlib.import_module(module), name)
    steps[step].arm(int(number), FLIGHT_SECS)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
