"""`state`: what is stored, for a person or a program that looks from outside."""

from pathlib import Path
from typing import TypeVar

import click

from engine.cli.command_group import CommandGroup
from engine.cli.on_store import on_store

_F = TypeVar("_F")


def _topology_option(function: _F) -> _F:
    return click.option("--topology", metavar="NAME", help="Which topology. May be left out where one alone is stored.")(function)  # type: ignore[type-var]


def _components_option(function: _F) -> _F:
    return click.option("--component", "components", metavar="ID", multiple=True, help="This component only; may be repeated.")(function)  # type: ignore[type-var]


def _unpickle_option(function: _F) -> _F:
    text = 'Decode values of state_codec="pickle". Whoever could write to the store then runs code here.'
    return click.option("--unpickle", is_flag=True, help=text)(function)  # type: ignore[type-var]


@click.group("state", cls=CommandGroup, short_help="Look at stored state, export it, delete it.")
def command() -> None:
    """Look at what stateful bolts have stored, export it, delete it.

    URL is the state_provider of the run: sqlite:///counts.db, redis://:password@host:6379/0, package.module:function?text.
    Looking takes nothing from a run that goes on, and writes nothing. What is shown is the last committed checkpoint.

    \b
      state list sqlite:///counts.db
      state show sqlite:///counts.db --topology counts --limit 20
      state export redis://localhost:6379/0 --component count -o counts.jsonl
      state delete sqlite:///counts.db --component count
    """


@command.command("list", short_help="What is stored, a line for each component.")
@click.argument("url")
@_topology_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
@_unpickle_option
def list_command(url: str, topology: str | None, *, as_json: bool, unpickle: bool) -> int:
    """List what is stored at URL: one line for each topology and component.

    \b
      state list sqlite:///counts.db
      state list redis://localhost:6379/0 --json

    txid is the last committed one. Bytes are those of keys, values and deltas; deltas are what is staged and not folded into rows.
    """
    from engine.cli.state_look import list_stored

    return on_store(url, lambda provider: list_stored(provider.inventory(), topology, unpickles=unpickle, as_json=as_json))


@command.command("show", short_help="The record, and the head of each component's state.")
@click.argument("url")
@_topology_option
@_components_option
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, metavar="N", help="So many keys of each component.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each component, for programs.")
@_unpickle_option
def show_command(url: str, topology: str | None, components: tuple[str, ...], limit: int, *, as_json: bool, unpickle: bool) -> int:
    """Show the checkpoint's record, and the first keys and values of each component.

    \b
      state show sqlite:///counts.db
      state show sqlite:///all.db --topology counts --component count --limit 100
    """
    from engine.cli.state_look import show_stored

    return on_store(
        url, lambda provider: show_stored(provider.inventory(), topology, components, limit, unpickles=unpickle, as_json=as_json)
    )


@command.command("export", short_help="All committed keys and values as JSON lines.")
@click.argument("url")
@_topology_option
@_components_option
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there, all or nothing.")
@_unpickle_option
def export_command(url: str, topology: str | None, components: tuple[str, ...], output: Path | None, *, unpickle: bool) -> int:
    """Write one JSON object a line: topology, component, key, value; and task, where each task has keys of its own.

    \b
      state export sqlite:///counts.db | jq -c '[.key, .value]'
      state export sqlite:///counts.db --component count -o counts.jsonl

    What JSON lacks is an object such as {"$bytes": "aGk="}: docs/STATE.md lists them.
    """
    from engine.cli.state_export import export_stored

    return on_store(url, lambda provider: export_stored(provider.inventory(), topology, components, output, unpickles=unpickle))


@command.command("delete", short_help="Delete the state of a topology, or of one component.")
@click.argument("url")
@_topology_option
@click.option("--component", metavar="ID", help="This component only; the others go on with theirs.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
def delete_command(url: str, topology: str | None, component: str | None, *, is_sure: bool) -> int:
    """Say what goes, ask, and delete it: all state of a topology, or of one component, which then begins anew.

    \b
      state delete sqlite:///counts.db
      state delete redis://localhost:6379/0 --topology counts --component count --yes

    Where it is interrupted, no run takes what is left for whole; say the same command again.
    """
    from engine.cli.state_delete import delete_stored

    return on_store(url, lambda provider: delete_stored(provider, topology, component, is_sure=is_sure))
