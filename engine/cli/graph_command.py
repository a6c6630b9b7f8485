"""`graph`: a topology as a drawing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from engine.cli import options
from engine.cli.load import load_topology
from engine.topology import Topology

FORMATS: Final = ("mermaid", "dot", "svg")
_SUFFIXES: Final[Mapping[str, str]] = {".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg"}


@click.command("graph", short_help="Draw a topology.")
@options.topology_argument
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Default: what the name of --output says, else mermaid.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there instead of to standard output.")
def command(spec: str, kind: str | None, output: Path | None) -> int:
    """Draw the topology in FILE: components with their parallelism, streams with their groupings.

    \b
      graph topology.py                        Mermaid, for Markdown pages
      graph topology.py -o topology.svg        needs no other program
      graph topology.py --format dot | dot -Tpng > topology.png
    """
    text = _drawing(kind or _kind_of(output))(load_topology(spec).topology)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
        return 0
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}. Name another file with -o.") from None
    click.echo(f"{output} is written", err=True)
    return 0


def _kind_of(output: Path | None) -> str:
    return "mermaid" if output is None else _SUFFIXES.get(output.suffix.lower(), "mermaid")


def _drawing(kind: str) -> Callable[[Topology], str]:
    if kind == "svg":
        from engine.topology.svg import svg

        return svg
    from engine.topology import graph

    return graph.dot if kind == "dot" else graph.mermaid
