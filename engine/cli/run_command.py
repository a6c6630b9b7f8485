"""`run`: a topology in this terminal until it is complete, or a signal drains it."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from engine import log
from engine.cli import options, settings
from engine.cli.load import LoadedTopology, load_topology
from engine.cli.output import standard_error
from engine.cli.session import run_in_terminal
from engine.cli.view import ViewName
from engine.errors import EngineError

LEVELS = ("debug", "info", "warning", "error", "critical")

HELP: Final = """\
Run the topology in FILE until it is complete.

FILE is a Python file that holds a topology, a builder, or a function that returns one; NAME tells which, where it
holds several. It is imported with its own folder importable.

\b
  run topology.py                      until all spouts are exhausted
  run flows.py:clicks --for 30s        one of several, drained after 30 seconds
  run topology.py -c acker_executors=2 -c max_spout_pending=1000
  run topology.py --config prod.toml   [engine] in prod.toml holds settings
  run topology.py --json | jq .event   for programs
  run topology.py --show-config        each setting, and where it came from

On a terminal a live table shows the figures, elsewhere a line every few seconds (stats_interval_secs). They go to
standard error, as logs and errors do, so that standard output is the topology's own; but with --json they are there.

\b
Settings, the later ones win:
  defaults, `config` in FILE, --config, ENGINE_<NAME> in the environment, -c

The first Ctrl-C (or SIGTERM) drains: the spouts stop, open trees get drain_timeout_secs to finish. The second one
stops at once.

\b
Exit status:
  0    complete or drained
  1    a component failed for good
  2    the command line, the configuration or the topology is wrong
  130  stopped by the second signal
"""


@click.command("run", short_help="Run a topology.", help=HELP)
@options.topology_argument_optional
@options.settings_options
@click.option("--for", "for_secs", metavar="DURATION", type=options.Duration(), help="Drain after this time: 500ms, 30s, 5m, 1h.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output, for programs.")
@click.option("--plain", is_flag=True, help="Plain lines on a terminal too, instead of the live table.")
@click.option("--show-config", is_flag=True, help="Show every setting, its value and where it came from, and end. FILE may be left out.")
@click.option(
    "--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="warning", show_default=True, help="Least level logged."
)
@click.option("--full-traceback", is_flag=True, help="Show every frame of a traceback, those of libraries and the engine too.")
@click.option("--log-json", is_flag=True, help="Log JSON lines.")
def command(spec: str | None, flags: tuple[str, ...], config_file: Path | None, for_secs: float | None, **switches: bool | str) -> int:
    """Load, show or run what was asked for."""
    as_json = bool(switches["as_json"])
    if as_json and switches["plain"]:
        raise click.UsageError("--json and --plain are two ways to show the same. Choose one.")
    log.configure(str(switches["log_level"]), json_lines=bool(switches["log_json"]), stream=standard_error)
    try:
        loaded = _load(spec, needed=not switches["show_config"])
        flags += ("full_traceback=true",) * bool(switches["full_traceback"])
        chosen = options.settings_of(flags, config_file, loaded)
    except EngineError as error:
        if as_json and not switches["show_config"]:
            from engine.cli.json_lines import write_refusal

            with suppress(BrokenPipeError):  # the refusal itself ends the command
                write_refusal(error)
        raise
    if switches["show_config"]:
        rows = settings.show(chosen)
        click.echo(settings.as_json(rows) if as_json else settings.as_table(rows))
        return 0
    assert loaded is not None
    view: ViewName = "json" if as_json else "plain" if switches["plain"] else "auto"
    return run_in_terminal(loaded.topology, chosen.config, view=view, for_secs=for_secs).exit_status


def _load(spec: str | None, *, needed: bool) -> LoadedTopology | None:
    if spec is not None:
        return load_topology(spec)
    if needed:
        raise click.UsageError("Missing FILE: which topology? Write `run topology.py`.")
    return None
