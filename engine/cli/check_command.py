"""`check`: what is wrong with a topology file, or what it holds, without running it."""

from pathlib import Path

import click

from engine.cli import options
from engine.cli.figures import aligned
from engine.cli.load import load_topology
from engine.cli.output import standard_output
from engine.config import Config
from engine.errors import TopologyError
from engine.state import provider_of
from engine.topology import ComponentSpec, Topology, run_faults, trial_faults


@click.command("check", short_help="Say what is wrong with a topology file.")
@options.topology_argument
@options.settings_options
def command(spec: str, flags: tuple[str, ...], config_file: Path | None) -> int:
    """Import FILE, build its topology, judge it with the settings it would run with, and list its components.

    Every fault is reported at once, each with its fix, and the exit status is 2. Each factory makes an instance, as a run
    would at its start; nothing is opened or prepared.

    \b
      check topology.py
      check flows.py:clicks --config prod.toml && deploy
    """
    loaded = load_topology(spec)
    config = options.settings_of(flags, config_file, loaded).config
    judge(loaded.topology, config)
    click.echo(describe(loaded.topology, str(loaded.path)), file=standard_output())
    return 0


def judge(topology: Topology, config: Config) -> None:
    """Raise TopologyError, or StateProviderError, where a run would be refused with these settings."""
    faults = [*run_faults(topology, config), *trial_faults(topology)]
    if faults:
        raise TopologyError(faults, topology_name=topology.name)
    if topology.keeps_something:
        provider_of(config.state_provider)


def describe(topology: Topology, place: str) -> str:
    """Return the components of a topology, one a line."""
    specs = topology.components.values()
    tasks = sum(spec.parallelism for spec in specs)
    counts = f"{len(specs)} {'component' if len(specs) == 1 else 'components'}, {tasks} {'task' if tasks == 1 else 'tasks'}"
    rows = [("component", "kind", "takes in", "emits"), *map(_row, specs)]
    return f"{place}: topology {topology.name!r} is in order: {counts}\n{aligned(rows, text_columns=4)}"


def _row(spec: ComponentSpec) -> tuple[str, ...]:
    inputs = ", ".join(f"{one.source}.{one.stream} {one.grouping.label}" for one in spec.subscriptions)
    streams = ", ".join(f"{stream}({', '.join(fields.names)})" for stream, fields in spec.streams.items())
    return spec.component_id, f"{spec.kind} × {spec.parallelism}", inputs or "–", streams or "–"
