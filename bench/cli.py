"""The command line of the benchmarks. Each group of works has a command, and there are `report` and `install-peers`."""

import argparse
import datetime
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from bench.chart import update_chart
from bench.environments import ENVIRONMENTS
from bench.machine import describe
from bench.needs import missing_need
from bench.process import RunFailed
from bench.registry import GROUPS, REPORTED, WORKS
from bench.results import Missing, Results
from bench.rounds import Rounds, measure_alone, measure_beside
from bench.servers import broker
from bench.sweeps import measure_sweep
from bench.tables import markdown, show_results, show_table
from bench.work import Peer, Work

ROUNDS, QUICK_ROUNDS = 5, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Return 0, or 1 if a work could not be measured. Exit with 2 if the command line is wrong."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    command: str | None = arguments.command
    if command is None:
        show_list()
        return 0
    known = tuple(dict.fromkeys(_names_of(command)))
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"no such benchmark: {', '.join(unknown)} (there are: {', '.join(known)})")
    if command == "install-peers":
        for name in arguments.names or ENVIRONMENTS:
            ENVIRONMENTS[name].install()
        return 0
    machine = describe()
    groups = (arguments.names or REPORTED) if command == "report" else (command,)
    rounds = Rounds(arguments.repeat or (QUICK_ROUNDS if arguments.quick else ROUNDS), say, quick=arguments.quick)
    results = Results()
    for group in groups:
        results += measure_group(group, [] if command == "report" else arguments.names, rounds)
    settings = {"runs": str(rounds.count)} | ({"quick": "yes, figures mean nothing"} if rounds.quick else {}) | _versions(groups)
    _print_results(command, arguments, results, machine, settings)
    if command == "report" and "compare" in groups and not rounds.quick:
        say(update_chart(results, machine, datetime.date.today().isoformat()))
    return 1 if any(not missing.absent_peer for missing in results.missing) else 0


def measure_group(group: str, names: Sequence[str], rounds: Rounds) -> Results:
    """Measure the chosen works of a group. A broker runs only while neighbouring works need one."""
    results = Results()
    for needs_broker, chosen in groupby(choose(_works_of(group), names), lambda pair: "kafka" in pair[0].needs):
        if needs_broker and missing_need(["kafka"]) is None:
            with broker():
                results += _measure_works(chosen, rounds)
        else:
            results += _measure_works(chosen, rounds)
    return results


def choose(works: Sequence[Work], names: Sequence[str]) -> Iterator[tuple[Work, Sequence[Peer]]]:
    """Choose works and their peers by names of works or peers. Without names choose all.

    A named peer limits the named works that have this peer. If no named work has it, all other works with this peer are chosen.
    """
    covered = {peer.name for work in works if work.name in names for peer in work.peers}
    for work in works:
        named = [peer for peer in work.peers if peer.name in names]
        if work.name in names or not names:
            if names or not work.only_by_name:
                yield work, named or work.peers
        elif new := [peer for peer in named if peer.name not in covered]:
            yield work, new


def _measure_works(chosen: Iterable[tuple[Work, Sequence[Peer]]], rounds: Rounds) -> Results:
    results = Results()
    for work, peers in chosen:
        reason = missing_need(work.needs)
        if reason:
            rounds.say_once(f"{work.name}: skipped: {reason}")
            results += Results(missing=(Missing(work.group, work.name, reason),))
        elif peers:
            results += measure_beside(work, peers, rounds)
        else:
            try:
                results += measure_sweep(work, work.sweep, rounds) if work.sweep else measure_alone(work, rounds)
            except RunFailed as error:
                rounds.say(f"  failed: {error}")
                results += Results(missing=(Missing(work.group, work.name, str(error)),))
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Benchmarks of stormcell. Without a command: list all works and peers."
    )
    commands = parser.add_subparsers(dest="command")
    report = f"print each target with its verdict as Markdown, and draw the README's chart; groups: {', '.join(REPORTED)}"
    for name, text in (*GROUPS.items(), ("report", report)):
        command = commands.add_parser(name, help=text)
        command.add_argument("names", nargs="*", help="works, peers, or both; all if none is given")
        command.add_argument(
            "--repeat", type=_at_least_one, metavar="N", help=f"runs, or pairs of runs ({ROUNDS}; with --quick {QUICK_ROUNDS})"
        )
        command.add_argument("--quick", action="store_true", help="small runs that only show that everything works")
        command.add_argument("--json", action="store_true", help="print JSON instead of tables")
        if name == "report":
            command.add_argument("--output", type=Path, metavar="FILE", help="write the Markdown to this file")
    install = commands.add_parser("install-peers", help="create environments with the Python peers; compare takes minutes and 1.6 GB")
    install.add_argument("names", nargs="*", help=f"environments: {', '.join(ENVIRONMENTS)}; both if none is given")
    return parser


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _works_of(group: str) -> tuple[Work, ...]:
    return tuple(work for work in WORKS if work.group == group)


def _names_of(command: str) -> Iterator[str]:
    if command == "report":
        yield from REPORTED
    elif command == "install-peers":
        yield from ENVIRONMENTS
    else:
        for work in _works_of(command):
            yield work.name
        for work in _works_of(command):
            yield from (peer.name for peer in work.peers)


def _print_results(
    command: str, arguments: argparse.Namespace, results: Results, machine: Mapping[str, str], settings: Mapping[str, str]
) -> None:
    if arguments.json:
        print(json.dumps({"machine": machine, "settings": settings, "results": results.as_json()}, indent=2))
    elif command == "report":
        text = markdown(results, machine, settings, datetime.date.today().isoformat(), whole=not arguments.names)
        if arguments.output:
            arguments.output.write_text(text, encoding="utf-8")
        else:
            print(text, end="")
    else:
        print("; ".join(f"{name} {value}" for name, value in (*machine.items(), *settings.items())))
        show_results(results)


def _versions(groups: Sequence[str]) -> dict[str, str]:
    """Return the versions of the Python peers of these groups."""
    packages = {peer.run.package for work in WORKS if work.group in groups for peer in work.peers}
    used = {package.partition("/")[0] for package in packages if package}
    return {package: version for name in sorted(used) for package, version in ENVIRONMENTS[name].versions().items()}


def show_list() -> None:
    """Print all works and all peers, with the reason if a peer cannot be measured here."""
    rows = [[work.group, work.name, f"{work.summary}; per {work.unit}" if work.peers else work.summary] for work in WORKS]
    show_table("Benchmarks", ["group", "name", "measured"], rows, left=3)
    peers = {
        (work.group, peer.name): [work.group, peer.name, peer.note, missing_need((*peer.needs, peer.run.package)) or "ready"]
        for work in WORKS
        for peer in work.peers
    }
    show_table("Peers", ["group", "peer", "description", "here"], list(peers.values()), left=4)


def say(line: str) -> None:
    """Show progress on standard error, apart from the results."""
    print(line, file=sys.stderr, flush=True)
