"""`committers` shows what the targets of committers have, and lets them forget it (EO-11)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from engine.checkpoint.record_entries import LEDGER, StoredEntries
from engine.cli import settings
from engine.cli.committer_targets import Answer, ask_targets, committers_of
from engine.cli.console.commands import DECLINED, CommandGroup, confirm
from engine.cli.console.formatting import NONE, aligned, count_text, name_text
from engine.cli.console.output import print_to_stderr, show_error, write_line
from engine.cli.stored_state import WRONG
from engine.cli.topology_file import load_topology
from engine.config import Config
from engine.errors import EngineError, StateError
from engine.names import did_you_mean
from engine.state import StateProvider, provider_of
from engine.topology import ComponentSpec, Topology

COLUMNS: Final = ("committer", "newest checkpoint")


@click.group("committers", cls=CommandGroup, short_help="Show what the targets of committers have, or let them forget it.")
def command() -> None:
    """Show the newest checkpoint in the target of each committer, or let the targets forget it.

    FILE is the topology, because only its code knows the targets. The target of a committer keeps the number of its newest
    checkpoint, so that nothing is written twice. It therefore refuses a run whose state was deleted, until it has forgotten this number.

    Exit status: 0, or 1 if you decline, or 2 if a target cannot be asked, or does not forget.

    \b
      committers show totals.py
      committers forget totals.py
    """


@command.command("show", short_help="Show the newest checkpoint in each target.")
@settings.topology_argument
@settings.settings_options
def show_command(spec: str, flags: tuple[str, ...], config_file: Path | None) -> int:
    """Show the newest checkpoint whose output is in the target of each committer of FILE.

    \b
      committers show totals.py
    """
    topology, config, specs = _loaded(spec, flags, config_file, ())
    return _show(specs, asyncio.run(ask_targets(topology.name, specs, config)))


@command.command("forget", short_help="Let targets forget, to begin anew.")
@settings.topology_argument
@click.argument("committers", metavar="COMMITTER...", nargs=-1)
@click.option("--yes", "is_sure", is_flag=True, help="Forget without asking.")
@settings.settings_options
def forget_command(spec: str, committers: tuple[str, ...], flags: tuple[str, ...], config_file: Path | None, *, is_sure: bool) -> int:
    """Let the targets of FILE's committers forget their newest checkpoint, so that the topology can begin anew.

    \b
      state delete sqlite:///positions.db --topology totals
      committers forget totals.py
      committers forget totals.py rows --yes

    Empty the targets first. This command deletes no row, record or file of yours. It is refused while a process runs the topology, and
    while its state has a committed checkpoint. A map of values with values in it, and a folder with output files, do not forget.
    """
    topology, config, specs = _loaded(spec, flags, config_file, committers)
    try:
        return asyncio.run(_forget(topology, config, specs, is_sure=is_sure))
    except StateError as error:
        show_error(error)
        return WRONG


def _loaded(
    spec: str, flags: tuple[str, ...], config_file: Path | None, names: Sequence[str]
) -> tuple[Topology, Config, list[ComponentSpec]]:
    loaded = load_topology(spec)
    topology = loaded.topology
    specs = {each.component_id: each for each in committers_of(topology)}
    for name in names:
        if name not in specs:
            raise click.UsageError(f"topology {topology.name!r} has no committer {name!r}. {did_you_mean(name, specs)}")
    if not specs:
        raise click.UsageError(f"topology {topology.name!r} has no committer at its checkpoints.")
    config = settings.load_settings(flags, config_file, loaded).config
    return topology, config, [specs[name] for name in names] or list(specs.values())


def _show(specs: Sequence[ComponentSpec], answers: dict[str, Answer]) -> int:
    """Write a line for each target, and the errors. Return the exit status."""
    told = [(name_text(spec.component_id), _text(answers[spec.component_id])) for spec in specs]
    write_line(aligned([COLUMNS, *told], text_columns=2))
    errors = [error for error in answers.values() if isinstance(error, EngineError)]
    for error in errors:
        show_error(error)
    return WRONG if errors else 0


def _text(answer: Answer) -> str:
    if answer is None:
        return "its target does not tell"
    if isinstance(answer, EngineError):
        return "unknown"
    return NONE if answer < 0 else count_text(answer)


async def _forget(topology: Topology, config: Config, specs: Sequence[ComponentSpec], *, is_sure: bool) -> int:
    name = topology.name
    named = ", ".join(repr(spec.component_id) for spec in specs)
    question = f"The targets of {named} will take everything again, from the first checkpoint on."
    if not is_sure and not confirm(question, "Are they empty, and shall they forget?", separator=" "):
        print_to_stderr("nothing was forgotten")
        return DECLINED
    provider = provider_of(config.state_provider)
    await provider.open(name)  # refused while a process runs the topology
    try:
        await _check_has_no_state(provider, name)
        return _show(specs, await ask_targets(name, specs, config, forget=True))
    finally:
        await provider.close()


async def _check_has_no_state(provider: StateProvider, topology_name: str) -> None:
    ledger = provider.ledger(LEDGER)
    await ledger.claim()
    decided = StoredEntries(await ledger.read(), topology_name).record.decided_txid
    if decided >= 0:
        raise StateError(
            f"topology {topology_name!r} has a state, of checkpoint {decided}, to which the outputs in its targets belong",
            hint=f"To begin anew, delete it first: python -m engine state delete URL --topology {topology_name}",
        )
