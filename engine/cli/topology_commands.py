"""`check` and `graph` validate or draw the topology of a file without running it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from engine.checkpoint.guarantees import Guarantees, guarantees
from engine.cli import settings
from engine.cli.console.commands import output_file_errors
from engine.cli.console.formatting import aligned, plural
from engine.cli.console.output import print_to_stderr, write_line
from engine.cli.topology_file import load_topology
from engine.config import Config
from engine.errors import TopologyError
from engine.state import provider_of
from engine.topology import ComponentSpec, Topology, run_faults, trial_faults

FORMATS: Final = ("mermaid", "dot", "svg")
_SUFFIXES: Final[Mapping[str, str]] = {".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg"}


@click.command("check", short_help="Validate a topology file without running it.")
@settings.topology_argument
@settings.settings_options
def check_command(spec: str, flags: tuple[str, ...], config_file: Path | None) -> int:
    """Import FILE, validate its topology with its settings, and list its components.

    Reports all faults at once, each with its fix. The exit status is then 2. Every factory is called, as at the start
    of a run. Nothing is opened or prepared.

    \b
      check topology.py
      check flows.py:clicks --config prod.toml && deploy
    """
    loaded = load_topology(spec)
    config = settings.load_settings(flags, config_file, loaded).config
    validate_for_run(loaded.topology, config)
    write_line(describe(loaded.topology, str(loaded.path), config))
    return 0


def validate_for_run(topology: Topology, config: Config) -> None:
    """Raise TopologyError or StateProviderError if a run with these settings would be refused."""
    faults = [*run_faults(topology, config), *trial_faults(topology)]
    if faults:
        raise TopologyError(faults, topology_name=topology.name)
    if topology.stored:
        provider_of(config.state_provider)


def describe(topology: Topology, path: str, config: Config) -> str:
    """Return the components of a valid topology, one per line. If it keeps state, say which sources are exact with these settings."""
    specs = topology.components.values()
    counts = f"{plural(len(specs), 'component')}, {plural(sum(spec.parallelism for spec in specs), 'task')}"
    rows = [("component", "kind", "inputs", "outputs"), *map(_component_row, specs)]
    text = f"{path}: topology {topology.name!r} is valid: {counts}\n{aligned(rows, text_columns=4)}"
    shown = guarantees(topology, config)
    return text if shown is None else f"{text}\n\n{_guarantee_text(shown)}"


def _guarantee_text(shown: Guarantees) -> str:
    rows = [("source", "a row counts", "because"), *((each.component_id, each.guarantee, each.why) for each in shown.sources)]
    parts = [f"{part}: {', '.join(bolts)}" for part in ("stateful", "committer") if (bolts := shown.bolts(part))]
    if shown.may_repeat:
        parts.append(f"effects outside may happen again after a failure: {', '.join(shown.may_repeat)}")
    return "\n".join([aligned(rows, text_columns=3), *parts])


def _component_row(spec: ComponentSpec) -> tuple[str, ...]:
    inputs = ", ".join(f"{one.source}.{one.stream} {one.grouping.label}" for one in spec.subscriptions)
    streams = ", ".join(f"{stream}({', '.join(fields.names)})" for stream, fields in spec.streams.items())
    return spec.component_id, f"{spec.kind} × {spec.parallelism}", inputs or "–", streams or "–"


@click.command("graph", short_help="Draw a topology.")
@settings.topology_argument
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Default: by the suffix of --output, else mermaid.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE instead of standard output.")
def graph_command(spec: str, kind: str | None, output: Path | None) -> int:
    """Draw the topology in FILE: components with their parallelism, streams with their groupings.

    If the topology keeps state, the drawing says which sources are exact, and which bolts take part in checkpoints.

    \b
      graph topology.py                        Mermaid, for Markdown pages
      graph topology.py -o topology.svg        needs no other program
      graph topology.py --format dot | dot -Tpng > topology.png
    """
    topology = load_topology(spec).topology
    shown = guarantees(topology, topology.config or Config())
    text = _drawing(kind or _kind_of(output))(topology, {} if shown is None else shown.labels())
    if output is None:
        write_line(text.removesuffix("\n"))
        return 0
    with output_file_errors(output):
        output.write_text(text, encoding="utf-8")
    print_to_stderr(f"wrote {output}")
    return 0


def _kind_of(output: Path | None) -> str:
    return "mermaid" if output is None else _SUFFIXES.get(output.suffix.lower(), "mermaid")


def _drawing(kind: str) -> Callable[[Topology, Mapping[str, str]], str]:
    from engine.topology import graph

    return {"mermaid": graph.mermaid, "dot": graph.dot, "svg": graph.svg}[kind]
