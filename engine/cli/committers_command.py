"""`committers` shows what the targets of committers have, lets them forget it, and gives up what cannot be published (EO-11)."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from engine.checkpoint.publish_deaths import deaths_text
from engine.checkpoint.record_entries import LEDGER, StoredEntries
from engine.checkpoint.unpublished import UnpublishedOutput, open_unpublished
from engine.cli import settings
from engine.cli.committer_targets import Answer, ask_targets, committers_of
from engine.cli.console.commands import DECLINED, CommandGroup, confirm
from engine.cli.console.formatting import NONE, aligned, count_text, name_text, plural
from engine.cli.console.output import print_to_stderr, show_error, write_line
from engine.cli.stored_state import WRONG
from engine.cli.topology_file import load_topology
from engine.config import Config
from engine.errors import EngineError, StateError
from engine.names import did_you_mean
from engine.state import StateProvider, codec_named, provider_of
from engine.topology import ComponentSpec, Topology
from engine.topology.interval_output import RefusedRow
from engine.transactional.interval import rows_to_publish, stages_itself

COLUMNS: Final = ("committer", "newest checkpoint")


@click.group("committers", cls=CommandGroup, short_help="Show what the targets of committers have, or let them forget it.")
def command() -> None:
    """Show the newest checkpoint in the target of each committer, let the targets forget it, or give up rows that end each process.

    FILE is the topology, because only its code knows the targets. The target of a committer keeps the number of its newest
    checkpoint, so that nothing is written twice. It therefore refuses a run whose state was deleted, until it has forgotten this number.

    Exit status: 0, or 1 if you decline, or 2 if a target cannot be asked or does not forget, or nothing can be given up.

    \b
      committers show totals.py
      committers forget totals.py
      committers give-up totals.py rows
    """


@command.command("show", short_help="Show the newest checkpoint in each target.")
@settings.topology_argument
@settings.settings_options
def show_command(spec: str, flags: tuple[str, ...], config_file: Path | None) -> int:
    """Show the newest checkpoint whose output is in the target of each committer of FILE.

    It also tells whether processes have ended while they published a checkpoint.

    \b
      committers show totals.py
    """
    topology, config, specs = _loaded(spec, flags, config_file, ())
    status = _show(specs, asyncio.run(ask_targets(topology.name, specs, config)))
    if (text := asyncio.run(_deaths(topology.name, config))) is not None:
        write_line(text)
    return status


async def _deaths(topology_name: str, config: Config) -> str | None:
    """Return what the store knows of processes that have ended while they published. None: of none."""
    with suppress(StateError):  # there is no store yet, or it cannot be read without a run
        async with provider_of(config.state_provider).inventory().look(topology_name) as found:
            stored, runs = StoredEntries(await found.entries(LEDGER), topology_name), bool(await found.holder())
        publishing = stored.publishing
        if publishing is not None and (stored.record.phase, stored.record.txid) == ("committing", publishing.txid):
            deaths = publishing.deaths if runs else publishing.ended
            return deaths_text(publishing, deaths) if deaths else None
    return None


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


@command.command("give-up", short_help="Give up rows that end each process which publishes them.")
@settings.topology_argument
@click.argument("committers", metavar="[COMMITTER]", nargs=-1)
@click.option("--yes", "is_sure", is_flag=True, help="Give up without asking.")
@settings.settings_options
def give_up_command(spec: str, committers: tuple[str, ...], flags: tuple[str, ...], config_file: Path | None, *, is_sure: bool) -> int:
    """Make dead letters of the staged rows of the checkpoint that is being published, so that the topology can go on without them.

    \b
      committers give-up totals.py
      committers give-up totals.py rows --yes

    For a row that ends each process which publishes it, and for which the committer cannot be corrected. Nobody knows which row it is, so
    all of COMMITTER that are not published become dead letters. The states of the bolts, and the other committers, keep their effects.
    It is refused while a process runs the topology.
    """
    if len(committers) > 1:
        raise click.UsageError("give up the rows of one committer at a time.")
    topology, config, specs = _loaded(spec, flags, config_file, committers)
    try:
        return asyncio.run(_give_up(topology.name, config, specs, is_sure=is_sure))
    except StateError as error:
        show_error(error)
        return WRONG


async def _give_up(topology_name: str, config: Config, specs: Sequence[ComponentSpec], *, is_sure: bool) -> int:
    """Ask, and give up what one committer has not published. Return the exit status."""
    async with open_unpublished(provider_of(config.state_provider), topology_name, config) as found:
        spec = _one_with_output(found, specs)
    answer = (await ask_targets(topology_name, [spec], config))[spec.component_id]
    if isinstance(answer, EngineError):
        show_error(answer)
        return WRONG
    async with open_unpublished(provider_of(config.state_provider), topology_name, config) as found:
        rows = _rows_to_give_up(found, spec, config, answer)
        told = found.deaths_text
        may_have_some = found.by_committer[spec.component_id][0].tasks > 1
    number = sum(map(len, rows.values()))
    what = f"{plural(number, 'staged row')} of {spec.component_id!r} in checkpoint {found.txid}"
    some = " Those of a task that has published before its process ended are in the target nevertheless." if may_have_some else ""
    question = f"{told[0].upper()}{told[1:]}. The {what} will become dead letters, and the target will lack them.{some}"
    if not is_sure and not confirm(question, "Give them up?"):
        print_to_stderr("nothing was given up")
        return DECLINED
    async with open_unpublished(provider_of(config.state_provider), topology_name, config) as now:
        if now.txid != found.txid or _rows_to_give_up(now, spec, config, answer) != rows:
            raise StateError(f"topology {topology_name!r} has run meanwhile, and nothing was given up", hint="Repeat the command.")
        await now.give_up(spec.component_id, rows)
    print_to_stderr(f"gave up {what}. They are dead letters now: python -m engine dead-letters list")
    return 0


def _one_with_output(found: UnpublishedOutput, specs: Sequence[ComponentSpec]) -> ComponentSpec:
    waiting = [spec for spec in specs if spec.component_id in found.by_committer]
    if len(waiting) == 1:
        return waiting[0]
    names = ", ".join(map(repr, found.by_committer))
    if waiting:
        text = f"checkpoint {found.txid} is not published by {len(waiting)} committers: {names}"
        raise StateError(text, hint="Name one of them. If you do not know which of them ends the process, give up one after the other.")
    asked = ", ".join(repr(spec.component_id) for spec in specs)
    raise StateError(f"checkpoint {found.txid} is published by {asked}, and not by {names}", hint="Name one of these.")


def _rows_to_give_up(
    found: UnpublishedOutput, spec: ComponentSpec, config: Config, newest_txid: int | None
) -> Mapping[int, Sequence[RefusedRow]]:
    """Return the rows by task index. newest_txid: of the target, None if it does not tell."""
    where = f"committer {spec.component_id!r}"
    outputs = found.by_committer.get(spec.component_id)
    if outputs is None or (newest_txid is not None and newest_txid >= found.txid and outputs[0].tasks == 1):
        text = f"{where}: its target has the output of checkpoint {found.txid} already"
        raise StateError(text, hint="Start the topology. Nothing was changed.")
    if stages_itself(spec.factory.create()):
        text = f"{where} stages pieces of its own, which are no rows, so they cannot become dead letters"
        hint = "Correct publish() of its class, and start the topology: what is staged will be published by the new code."
        raise StateError(text, hint=hint)
    codec = codec_named(config.state_codec)
    rows = {
        output.task_index: [
            RefusedRow(number, tup.source_component, tup.stream, tup.values[1:], "") for number, tup in rows_to_publish(codec, output)
        ]
        for output in outputs
    }
    number = sum(map(len, rows.values()))
    if number == 0:
        text = f"{where} has no staged row in checkpoint {found.txid} that is not given up"
        raise StateError(text, hint="Start the topology. Nothing was changed.")
    if number > found.room:
        raise StateError(
            f"{where} has {number:,} staged rows in checkpoint {found.txid}, and there is room for {found.room:,} more dead letters",
            hint="Drop letters: python -m engine dead-letters drop. Or correct the committer, so that it leaves out the row that ends the "
            "process, and start the topology: what is staged will be executed by the new code.",
        )
    return rows


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
