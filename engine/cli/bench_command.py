"""`bench`: the benchmarks of a checkout, as `python -m bench`."""

import importlib
import sys
from pathlib import Path

import click

_CHECKOUT = Path(__file__).resolve().parents[2]


@click.command(
    "bench",
    short_help="Run the engine's benchmarks.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Run the benchmarks; everything behind `bench` is theirs. They are part of a checkout, not of the installed package."""
    if not (_CHECKOUT / "bench" / "cli.py").is_file():
        raise click.UsageError(
            f"the benchmarks are not installed with the package: there is no folder bench beside {_CHECKOUT / 'engine'}. "
            "Run this in a checkout of the project."
        )
    if str(_CHECKOUT) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT))
    status: int = importlib.import_module("bench.cli").main(list(arguments))
    return status
