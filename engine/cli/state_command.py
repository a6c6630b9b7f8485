"""`state` inspects, exports and deletes the stored state of stateful bolts."""

from pathlib import Path
from typing import Any, TypeVar

import click

from engine.cli.console.commands import CommandGroup

_F = TypeVar("_F")


def topology_option(function: _F) -> _F:
    return click.option("--topology", metavar="NAME", help="The topology. Optional if the store contains only one.")(function)  # type: ignore[type-var]


def _components_option(function: _F) -> _F:
    return click.option("--component", "components", metavar="ID", multiple=True, help="Only this component. May be repeated.")(function)  # type: ignore[type-var]


def unpickle_option(function: _F) -> _F:
    text = 'Unpickle values of state_codec="pickle". Code in the store then runs here: only for a store that you trust.'
    return click.option("--unpickle", is_flag=True, help=text)(function)  # type: ignore[type-var]


@click.group("state", cls=CommandGroup, short_help="Inspect, export and delete stored state.")
def command() -> None:
    """Inspect, export and delete the stored state of stateful bolts.

    URL is the state_provider of the run: sqlite:///counts.db, redis://:password@host:6379/0, package.module:function?text.
    list, show and export read the last committed checkpoint. These commands write nothing and do not disturb a running topology.

    Exit status: 0, or 1 if you decline a deletion, or 2 if the store cannot be reached or read.

    \b
      state list sqlite:///counts.db
      state show sqlite:///counts.db --topology counts --limit 20
      state export redis://localhost:6379/0 --component count -o counts.jsonl
      state delete sqlite:///counts.db --component count
    """


@command.command("list", short_help="List the stored components.")
@click.argument("url")
@topology_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line, for programs.")
@unpickle_option
def list_command(url: str, topology: str | None, *, as_json: bool, unpickle: bool) -> int:
    """List the state at URL: one line for each topology and component.

    \b
      state list sqlite:///counts.db
      state list redis://localhost:6379/0 --json

    The column txid is the last committed txid. The column bytes is the size of keys, values and deltas. Deltas are staged changes that are
    not yet merged into rows. The column namespaces appears if a component has any.
    """
    from engine.cli.stored_state import list_state, run_on_store

    return run_on_store(url, lambda provider: list_state(provider.inventory(), topology, unpickles=unpickle, as_json=as_json))


@command.command("show", short_help="Show the checkpoint record and the first keys.")
@click.argument("url")
@topology_option
@_components_option
@click.option(
    "--limit", type=click.IntRange(min=0), default=10, show_default=True, metavar="N", help="Show the first N keys of each component."
)
@click.option("--namespace", metavar="NAME", help="Show the keys of this namespace, not those of the plain state.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object for each component, for programs.")
@unpickle_option
def show_command(url: str, topology: str | None, components: tuple[str, ...], **options: Any) -> int:
    """Show the record of the checkpoint, and the first keys and values of each component.

    \b
      state show sqlite:///counts.db
      state show sqlite:///all.db --topology counts --component count --limit 100
      state show sqlite:///counts.db --namespace 1700000000000000
    """
    from engine.cli.shown_state import Wanted, show_state
    from engine.cli.stored_state import run_on_store

    wanted, unpickles, as_json = Wanted(components, options["namespace"], options["limit"]), options["unpickle"], options["as_json"]
    return run_on_store(url, lambda provider: show_state(provider.inventory(), topology, wanted, unpickles=unpickles, as_json=as_json))


@command.command("export", short_help="Write all committed keys and values as JSON lines.")
@click.argument("url")
@topology_option
@_components_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE, which appears when the export is complete."
)
@unpickle_option
def export_command(url: str, topology: str | None, components: tuple[str, ...], output: Path | None, *, unpickle: bool) -> int:
    """Write one JSON object per line: topology, component, key, value. A key of a namespace also has the field namespace.

    If each task has its own state, the object also has the field task.

    \b
      state export sqlite:///counts.db | jq -c '[.key, .value]'
      state export sqlite:///counts.db --component count -o counts.jsonl

    Values without a JSON type become objects such as {"$bytes": "aGk="}. docs/STATE.md lists them.
    """
    from engine.cli.stored_state import export_state, run_on_store

    return run_on_store(url, lambda provider: export_state(provider.inventory(), topology, components, output, unpickles=unpickle))


@command.command("delete", short_help="Delete the state of a topology, or of one component.")
@click.argument("url")
@topology_option
@click.option("--component", metavar="ID", help="Only this component. The others keep their state.")
@click.option("--yes", "is_sure", is_flag=True, help="Delete without asking.")
def delete_command(url: str, topology: str | None, component: str | None, *, is_sure: bool) -> int:
    """Delete the state of a topology, or of one component, which then starts empty. Shows the size and asks first.

    \b
      state delete sqlite:///counts.db
      state delete redis://localhost:6379/0 --topology counts --component count --yes

    If a deletion is interrupted, no run uses the rest of the state. Repeat the command to finish it.
    """
    from engine.cli.stored_state import delete_stored_state, run_on_store

    return run_on_store(url, lambda provider: delete_stored_state(provider, topology, component, is_sure=is_sure))
