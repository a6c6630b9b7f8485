"""The command line of the benchmarks: list, micro, macro, state, compare, report, install-peers."""

import argparse
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.benchmark import Benchmark
from bench.child import RunFailed
from bench.compare import contest, python_peers
from bench.compare.work import WORKS
from bench.machine import describe
from bench.macro.catalog import MACRO
from bench.micro.catalog import MICRO
from bench.render import show_results, show_table
from bench.report import markdown
from bench.results import Missing, Results, measured
from bench.rounds import repeat
from bench.state.catalog import PAIR_NAMES, STATE, word_counts

ROUNDS, QUICK_ROUNDS = 5, 2
GROUPS: Mapping[str, tuple[Benchmark, ...]] = {"micro": MICRO, "macro": MACRO, "state": STATE}
REPORTED = ("compare", "macro", "state")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 1 when something that was asked for could not be measured, 2 for a wrong command line."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    command: str | None = arguments.command
    if command is None:
        show_list()
        return 0
    if command == "install-peers":
        python_peers.install()
        return 0
    _refuse_unknown_names(parser, command, arguments.names)
    rounds = arguments.repeat or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    machine = describe()
    groups = (arguments.names or REPORTED) if command == "report" else (command,)
    names = [] if command == "report" else arguments.names
    results = sum((_measure(group, names, rounds, quick=arguments.quick) for group in groups), Results())
    settings = {"runs": str(rounds)} | ({"quick": "yes, figures mean nothing"} if arguments.quick else {}) | python_peers.versions()
    _hand_out(command, arguments, results, machine, settings)
    return 1 if any(missing.group != "compare" for missing in results.missing) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of stormcell. Without a command: what there is.")
    commands = parser.add_subparsers(dest="command")
    for name, text in (
        ("micro", "the parts of a tuple's way"),
        ("macro", "whole topologies"),
        ("state", "what state costs: word counts on one store beside another, latency, commits, recovery, memory"),
        ("compare", "the same work on peers; names are works, peers, or both"),
        ("report", f"all that the table of targets needs, as Markdown; names are of {', '.join(REPORTED)}"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("names", nargs="*", help="all where none is given")
        command.add_argument(
            "--repeat", type=_at_least_one, metavar="N", help=f"runs, or pairs of runs ({ROUNDS}; with --quick {QUICK_ROUNDS})"
        )
        command.add_argument("--quick", action="store_true", help="small runs that only show that everything works")
        command.add_argument("--json", action="store_true", help="print JSON instead of tables")
        if name == "report":
            command.add_argument("--output", type=Path, metavar="FILE", help="write the Markdown there")
    commands.add_parser("install-peers", help="make .venv-bench with Bytewax and Pathway (minutes, 1.6 GB)")
    return parser


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _refuse_unknown_names(parser: argparse.ArgumentParser, command: str, names: Sequence[str]) -> None:
    known = _names_of(command)
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)} (there are: {', '.join(known)})")


def _names_of(command: str) -> tuple[str, ...]:
    if command == "compare":
        return contest.NAMES
    if command == "report":
        return REPORTED
    return (PAIR_NAMES if command == "state" else ()) + tuple(item.name for item in GROUPS[command])


def _measure(group: str, names: list[str], rounds: int, *, quick: bool) -> Results:
    if group == "compare":
        return contest.compare(names, rounds, say, quick=quick)
    results = Results()
    if group == "state" and (not names or set(names) & set(PAIR_NAMES)):
        results += word_counts([name for name in names if name in PAIR_NAMES], rounds, say, quick=quick)
    for benchmark in GROUPS[group]:
        if not names or benchmark.name in names:
            results += _run(benchmark, rounds, quick=quick)
    return results


def _run(benchmark: Benchmark, rounds: int, *, quick: bool) -> Results:
    say(f"{benchmark.group} {benchmark.name}: {benchmark.summary}")
    try:
        return Results(measured=(measured(benchmark, repeat(benchmark.child(quick), rounds, say)),))
    except RunFailed as error:
        say(f"  failed: {error}")
        return Results(missing=(Missing(benchmark.group, benchmark.name, str(error)),))


def _hand_out(
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


def show_list() -> None:
    """Print what can be measured here."""
    rows = [[item.group, item.name, item.summary] for group in GROUPS.values() for item in group]
    rows += [["state", name, "word count of a text, counts in the first beside counts in the second; per word"] for name in PAIR_NAMES]
    rows += [["compare", work.name, f"{work.summary}; per {work.unit}"] for work in WORKS]
    show_table("Benchmarks", ["group", "name", "what"], rows, left=3)
    peers = [[peer.name, peer.note, peer.unavailable() or "ready"] for peer in contest.PEERS]
    show_table("Peers of compare", ["peer", "what", "here"], peers, left=3)


def say(line: str) -> None:
    """Show progress, apart from the results."""
    print(line, file=sys.stderr, flush=True)
