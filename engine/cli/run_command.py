"""`run` runs a topology in this terminal until it is complete, or until a signal drains it."""

from pathlib import Path
from typing import Any, Final

import click

from engine import log
from engine.cli import settings
from engine.cli.console.commands import Duration
from engine.cli.console.output import format_losses, standard_error, write_line
from engine.cli.console.session import ViewName
from engine.cli.run_session import run_in_terminal
from engine.cli.topology_file import LoadedTopology, load_topology
from engine.cli.watched_run import HttpOptions
from engine.errors import EngineError

LEVELS = ("debug", "info", "warning", "error", "critical")

HELP: Final = """\
Run the topology in FILE until it is complete.

FILE is a Python file with a topology, a builder, or a function that returns one. NAME chooses one of several. The
file can import the modules beside it.

\b
  run topology.py                      until all spouts are exhausted
  run flows.py:clicks --for 30s        one of several, drained after 30 seconds
  run topology.py -c acker_executors=2 -c max_spout_pending=1000
  run topology.py --config prod.toml   [engine] in prod.toml holds settings
  run topology.py --json | jq .event   JSON lines for programs
  run topology.py --show-config        each setting and its source
  run topology.py --http 8080          the page of the run at http://127.0.0.1:8080

On a terminal, a live table shows the metrics. Other outputs get a line every few seconds (stats_interval_secs). Metrics,
logs and errors go to standard error, so standard output belongs to the topology. --json writes to standard output.

\b
Settings (later sources override earlier ones):
  defaults, `config` in FILE, --config, ENGINE_<NAME> in the environment, -c

--http serves a page that shows the run and steers it. It prints the URL, with the token that each change needs.
ENGINE_HTTP_TOKEN sets the token. Other machines can read it only if ADDRESS says so: --http 0.0.0.0:8080.

The first Ctrl-C (or SIGTERM) drains: the spouts stop, and open trees have drain_timeout_secs to finish. The second
one stops at once.

\b
Exit status:
  0    complete or drained, and everything is processed
  1    a component failed for good
  2    the command line, the configuration or the topology is wrong
  3    complete or drained, but some messages failed for good or were still open
  130  stopped by the second signal
"""


@click.command("run", short_help="Run a topology.", help=HELP)
@settings.topology_argument_optional
@settings.settings_options
@click.option("--for", "for_secs", metavar="DURATION", type=Duration(), help="Drain after running for this time: 500ms, 30s, 5m, 1h.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines to standard output, for programs.")
@click.option("--plain", is_flag=True, help="Write plain lines on a terminal too, instead of the live table.")
@click.option("--show-config", is_flag=True, help="Show every setting with its value and its source, and exit. FILE is optional.")
@click.option(
    "--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="warning", show_default=True, help="Minimum level of the log."
)
@click.option("--full-traceback", is_flag=True, help="Show all frames of tracebacks, including those of libraries and the engine.")
@click.option("--log-json", is_flag=True, help="Write the log as JSON lines.")
@click.option(
    "--http", "http", metavar="ADDRESS", help="Serve the page of the run: 8080, 127.0.0.1:8080, 0.0.0.0:8080. Port 0 is a free port."
)
@click.option("--http-host", "http_hosts", metavar="NAME", multiple=True, help="Name by which browsers reach the page. May be repeated.")
@click.option(
    "--http-call", "http_calls", metavar="INLET", multiple=True, help="Inlet that POST /api/call/INLET may call. May be repeated."
)
def command(spec: str | None, flags: tuple[str, ...], config_file: Path | None, for_secs: float | None, **switches: Any) -> int:
    """Show the settings, or load and run the topology."""
    as_json = bool(switches["as_json"])
    if as_json and switches["plain"]:
        raise click.UsageError("--json and --plain exclude each other. Choose one.")
    http = _http_options(switches["http"], switches["http_hosts"], switches["http_calls"])
    log.configure(str(switches["log_level"]), json_lines=bool(switches["log_json"]), stream=standard_error)
    if switches["log_json"]:
        format_losses(log.JsonFormatter())
    try:
        loaded = _load(spec, needed=not switches["show_config"])
        flags += ("full_traceback=true",) * bool(switches["full_traceback"])
        chosen = settings.load_settings(flags, config_file, loaded)
    except EngineError as error:
        if as_json and not switches["show_config"]:
            from engine.cli.run_views import write_refusal

            write_refusal(error)
        raise
    if switches["show_config"]:
        rows = settings.setting_rows(chosen)
        write_line(settings.settings_json(rows) if as_json else settings.settings_table(rows))
        return 0
    assert loaded is not None
    view: ViewName = "json" if as_json else "plain" if switches["plain"] else "auto"
    return run_in_terminal(loaded.topology, chosen.config, view=view, for_secs=for_secs, http=http).exit_status


def _http_options(address: str | None, hosts: tuple[str, ...], inlets: tuple[str, ...]) -> HttpOptions | None:
    if address is not None:
        return HttpOptions(address, hosts, inlets)
    if hosts or inlets:
        raise click.UsageError(f"{'--http-host' if hosts else '--http-call'} needs --http. Write --http 8080.")
    return None


def _load(spec: str | None, *, needed: bool) -> LoadedTopology | None:
    if spec is not None:
        return load_topology(spec)
    if needed:
        raise click.UsageError("FILE is missing. Write `run topology.py`.")
    return None
