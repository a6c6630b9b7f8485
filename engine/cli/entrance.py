"""What every command line of ours has around its commands: output that cannot be written, interrupts, errors, the exit status."""

import importlib
import os
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click

from engine.cli import output
from engine.cli.leftovers import is_left_behind
from engine.errors import EngineError
from engine.raised import is_of_user_code, raised_text

CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_WRONG: Final = 2
_INTERRUPTED: Final = 130


class _Unwritten(Exception):
    """Holds an OSError back from click, which would end the process itself when a pipe is closed."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _held_back() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _Unwritten(error) from error


class Commands(click.Group):
    """Commands, each imported when it is asked for, from its module; `text` is the help, with `{name}` for how the program was called."""

    def __init__(self, *args: Any, modules: Mapping[str, str], text: str, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._modules = modules
        self._text = text

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the arguments; `--help` writes here already."""
        with _held_back():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _held_back():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names, in the order in which they are met."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name."""
        module = self._modules.get(cmd_name)
        return None if module is None else importlib.import_module(module).command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is none of this name."""
        if args and args[0] not in self._modules and not args[0].startswith("-"):
            ctx.fail(_unknown_command(args[0], ctx.command_path, self._modules))
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Fill in how this program was called."""
        self.help = self._text.format(name=ctx.command_path)
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Leave the list to the help text, so that no command is imported for it."""


def enter(program: click.Group, arguments: list[str] | None = None) -> None:
    """Run the command line, and end the process with its exit status (RUN-4)."""
    output.open_missing()
    status = run(program, arguments)
    if status == _INTERRUPTED or is_left_behind():  # at once: an exit would first wait for threads and coroutines, and one may never return
        output.discard_unwritten()
        os._exit(status)
    sys.exit(status)


def run(program: click.Group, arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status; `arguments` are those of the process by default."""
    with output.kept():
        return _run_and_write(program, arguments)


def _run_and_write(program: click.Group, arguments: list[str] | None) -> int:
    """Run it, and see to what could not be written."""
    status, error = 0, None
    try:
        status = _run(program, arguments)
    except _Unwritten as unwritten:
        error = unwritten.error
    except OSError as raised:
        error = raised
    lost = output.discard_unwritten()
    if error is not None:
        if is_of_user_code(error):
            return _tell_users(error)
        if not _is_of_output(error):
            raise error
        lost = lost or error
    if lost is None or isinstance(lost, BrokenPipeError):  # `... | head` has read enough
        return status
    output.tell_lost(lost)
    return status or _WRONG


def _is_of_output(error: OSError) -> bool:
    """Tell whether an error came of what a command writes. What a run writes comes as BrokenPipeError, by `output`."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return isinstance(error, BrokenPipeError) or frames[-1][0].f_code is click.echo.__code__


def _run(program: click.Group, arguments: list[str] | None) -> int:
    try:
        status = program.main(arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        output.tell("Interrupted.")
        return _INTERRUPTED
    except EngineError as error:
        from engine.cli.show_error import show_error

        show_error(error)
        return error.exit_status
    except Exception as error:
        if not is_of_user_code(error):
            raise
        return _tell_users(error)
    return status if isinstance(status, int) else 0


def _tell_users(error: Exception) -> int:
    """Tell of an error that user code raised where no component is to blame: in a config, a property, a loop's policy."""
    from engine.cli.show_error import show_error

    show_error(EngineError(f"user code raised {raised_text(error)}", hint="Correct it, or catch what it raises there."))
    return _WRONG


def _unknown_command(name: str, program: str, commands: Collection[str]) -> str:
    from engine.names import nearest

    if ".py" in name:
        return f"{name!r} is not a command. Did you mean `{program} run {name}`?"
    near = nearest(name, commands)
    return f"{name!r} is not a command. " + (f"Did you mean {near!r}?" if near else f"The commands are {', '.join(commands)}.")
