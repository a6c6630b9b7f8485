"""Defines command groups and shared options, and determines the exit status of a program."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.cli.console import output
from engine.cli.console.file_limit import end_without_files
from engine.cli.console.formatting import parse_duration
from engine.cli.console.leftovers import report_leftovers
from engine.cli.console.streams import ProductFile
from engine.errors import EngineError
from engine.names import nearest
from engine.raised import is_of_user_code, raised_text

if TYPE_CHECKING:
    _FloatParameter = click.ParamType[float]
else:
    _FloatParameter = click.ParamType  # this class is generic only since click 8.4

CONTEXT_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
DECLINED: Final = 1
"""Exit status if the user answers a question with no."""
_WRONG: Final = 2
_INTERRUPTED: Final = 130


class Duration(_FloatParameter):
    """Command-line type of a duration such as `30s`. The value is in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class CommandGroup(click.Group):
    """Command with subcommands. Lists them in the order of their declaration."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand. For an unknown name, the error suggests the nearest one."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            ctx.fail(f"{args[0]!r} is not a command. {self._suggest(args[0], names, ctx)}")
        return super().resolve_command(ctx, args)

    def _suggest(self, name: str, known: list[str], ctx: click.Context) -> str:
        near = nearest(name, known)
        return f"Did you mean {near!r}?" if near else f"The commands are {', '.join(known)}."


class Program(CommandGroup):
    """Top-level command. Imports the module of a subcommand on first use.

    modules: `package.module:attribute` by the name of a subcommand. text: the help, with `{name}` for the program's name.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], text: str, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._modules = modules
        self._text = text

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the arguments. With `--help`, this method also prints the help."""
        with _hide_os_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _hide_os_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a subcommand."""
        if cmd_name not in self._modules:
            return None
        module, _, attribute = self._modules[cmd_name].partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help with the name by which the user called the program."""
        self.help = self._text.format(name=ctx.command_path)
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing, because the help text lists the commands. So the help imports no command."""

    def _suggest(self, name: str, known: list[str], ctx: click.Context) -> str:
        return f"Did you mean `{ctx.command_path} run {name}`?" if ".py" in name else super()._suggest(name, known, ctx)


def confirm(question: str, prompt: str, *, separator: str = "\n") -> bool:
    """Show the question and ask the user for yes or no. Raise UsageError if standard input is not a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question}{separator}There is no terminal to ask on. Confirm with --yes.")
    return click.confirm(f"{question}\n{prompt}", err=True)


@contextmanager
def output_file_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of an output file into an error of the option -o."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}. Name another file with -o.") from error


def run_and_exit(program: click.Group, arguments: list[str] | None = None, *, note: str | None = None) -> None:
    """Run a program and end the process with its exit status (RUN-4). `note` is shown first."""
    with end_without_files(), output.keep_streams():
        if note is not None:
            output.print_to_stderr(note)
        status = run_program(program, arguments)
        if status == _INTERRUPTED or report_leftovers():  # sys.exit() would wait for threads and coroutines that may never return
            output.discard_unwritten()
            os._exit(status)
    sys.exit(status)


def run_program(program: click.Group, arguments: list[str] | None = None) -> int:
    """Run a program and return its exit status. Default of `arguments`: the arguments of the process."""
    with output.keep_streams():
        return _run_and_flush(program, arguments)


class _HiddenOSError(Exception):
    """Wraps an OSError to hide it from click. Without this class, click ends the process when a pipe is closed."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _hide_os_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _HiddenOSError(error) from error


def _run_and_flush(program: click.Group, arguments: list[str] | None) -> int:
    """Run a program, flush its output, and report output that is lost."""
    status, error = 0, None
    try:
        status = _run(program, arguments)
    except _HiddenOSError as hidden:
        error = hidden.error
    except OSError as raised:
        error = raised
    lost = output.discard_unwritten()
    if error is not None:
        if is_of_user_code(error):
            return _show_user_error(error)
        if not _is_of_output(error):
            raise error
        lost = lost or error
    if lost is None or isinstance(lost, BrokenPipeError):  # a reader such as `head` closed the pipe on purpose
        return status
    output.show_error(output.OutputLost(lost))
    return status or _WRONG


def _is_of_output(error: OSError) -> bool:
    """Tell whether an error comes from the output of a command. `output` turns every error of a run's output into BrokenPipeError."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return isinstance(error, BrokenPipeError) or frames[-1][0].f_code in (click.echo.__code__, ProductFile.write.__code__)


def _run(program: click.Group, arguments: list[str] | None) -> int:
    try:
        status = program.main(arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        output.print_to_stderr("Interrupted.")
        return _INTERRUPTED
    except EngineError as error:
        output.show_error(error)
        return error.exit_status
    except Exception as error:
        if not is_of_user_code(error):
            raise
        return _show_user_error(error)
    return status if isinstance(status, int) else 0


def _show_user_error(error: Exception) -> int:
    """Show an error that user code raised outside of a component, for example in a config."""
    output.show_error(EngineError(f"user code raised {raised_text(error)}", hint="Correct this code, or catch the exception there."))
    return _WRONG
