"""The command line of the benchmarks: list, micro, macro, state, kafka, transactions, spark, flow, compare, report, install-peers."""

import argparse
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.benchmark import Benchmark
from bench.chart import update_chart
from bench.compare import contest
from bench.compare.work import WORKS
from bench.flow import contest as flow_contest
from bench.kafka import contest as kafka_contest
from bench.kafka.catalog import ALONE as KAFKA_ALONE
from bench.kafka.catalog import WORKS as KAFKA_WORKS
from bench.kafka.catalog import names as kafka_names
from bench.machine import describe
from bench.macro.catalog import MACRO
from bench.micro.catalog import MICRO
from bench.python_peers import ENVIRONMENTS
from bench.render import show_results, show_table
from bench.report import markdown
from bench.results import Results
from bench.rounds import run_alone
from bench.spark import contest as spark_contest
from bench.spark.alone import ALONE as SPARK_ALONE
from bench.state.catalog import PAIR_NAMES, STATE, word_counts
from bench.transactions import contest as transactions_contest
from bench.transactions.catalog import ALONE as TRANSACTIONS_ALONE
from bench.transactions.catalog import NAMES as TRANSACTIONS_NAMES
from bench.transactions.catalog import PAIRED as TRANSACTIONS_PAIRED

ROUNDS, QUICK_ROUNDS = 5, 2
GROUPS: Mapping[str, tuple[Benchmark, ...]] = {"micro": MICRO, "macro": MACRO, "state": STATE}
REPORTED = ("compare", "macro", "state", "kafka", "transactions", "spark", "flow")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 1 when something that was asked for could not be measured, 2 for a wrong command line."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    command: str | None = arguments.command
    if command is None:
        show_list()
        return 0
    _refuse_unknown_names(parser, command, arguments.names)
    if command == "install-peers":
        for name in arguments.names or ENVIRONMENTS:
            ENVIRONMENTS[name].install()
        return 0
    rounds = arguments.repeat or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    machine = describe()
    groups = (arguments.names or REPORTED) if command == "report" else (command,)
    names = [] if command == "report" else arguments.names
    results = sum((_measure(group, names, rounds, quick=arguments.quick) for group in groups), Results())
    settings = {"runs": str(rounds)} | ({"quick": "yes, figures mean nothing"} if arguments.quick else {}) | _versions(groups)
    _hand_out(command, arguments, results, machine, settings)
    if command == "report" and "compare" in groups and not arguments.quick:
        say(update_chart(results, machine, datetime.date.today().isoformat()))
    return 1 if any(missing.group != "compare" for missing in results.missing) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of stormcell. Without a command: what there is.")
    commands = parser.add_subparsers(dest="command")
    for name, text in (
        ("micro", "the parts of a tuple's way"),
        ("macro", "whole topologies"),
        ("state", "what state costs: word counts on one store beside another, latency, commits, recovery, memory"),
        ("kafka", "a source and a sink beside other clients and engines; names are works, peers, or what is measured alone"),
        ("transactions", "batches beside single tuples, small batches, pipelining, exactly-once word counts of a topic"),
        ("spark", "rows handed over to Spark as Parquet, beside pyarrow alone; calls of Spark's process, and how late the loop is"),
        ("flow", "unlike tasks beside groupings with their best windows, max_spout_pending=auto beside a sweep, what the controller costs"),
        ("compare", "the same work on peers; names are works, peers, or both"),
        ("report", f"every target with its verdict, as Markdown; draws the README's chart; names are of {', '.join(REPORTED)}"),
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
    install = commands.add_parser("install-peers", help="make environments with the Python peers; compare's takes minutes and 1.6 GB")
    install.add_argument("names", nargs="*", help=f"of {', '.join(ENVIRONMENTS)}; both where none is given")
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
    if command == "kafka":
        return kafka_names()
    if command == "transactions":
        return TRANSACTIONS_NAMES
    if command == "spark":
        return spark_contest.NAMES
    if command == "flow":
        return flow_contest.NAMES
    if command == "install-peers":
        return tuple(ENVIRONMENTS)
    if command == "report":
        return REPORTED
    return (PAIR_NAMES if command == "state" else ()) + tuple(item.name for item in GROUPS[command])


def _measure(group: str, names: list[str], rounds: int, *, quick: bool) -> Results:
    if group == "compare":
        return contest.compare(names, rounds, say, quick=quick)
    if group == "kafka":
        return kafka_contest.measure(names, rounds, say, quick=quick)
    if group == "transactions":
        return transactions_contest.measure(names, rounds, say, quick=quick)
    if group == "spark":
        return spark_contest.measure(names, rounds, say, quick=quick)
    if group == "flow":
        return flow_contest.measure(names, rounds, say, quick=quick)
    results = Results()
    if group == "state" and (not names or set(names) & set(PAIR_NAMES)):
        results += word_counts([name for name in names if name in PAIR_NAMES], rounds, say, quick=quick)
    for benchmark in GROUPS[group]:
        if not names or benchmark.name in names:
            results += run_alone(benchmark, rounds, say, quick=quick)
    return results


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


def _versions(groups: Sequence[str]) -> dict[str, str]:
    """Return the versions of the peers of these groups."""
    wanted = {"kafka" if group == "transactions" else group for group in groups}
    return {package: version for name, each in ENVIRONMENTS.items() if name in wanted for package, version in each.versions().items()}


def show_list() -> None:
    """Print what can be measured here."""
    rows = [
        [item.group, item.name, item.summary] for group in (*GROUPS.values(), KAFKA_ALONE, TRANSACTIONS_ALONE.values()) for item in group
    ]
    rows += [["kafka", work.name, f"{work.summary}; per record"] for work in KAFKA_WORKS]
    rows += [["state", name, "word count of a text, counts in the first beside counts in the second; per word"] for name in PAIR_NAMES]
    rows += [["transactions", name, summary] for name, summary in TRANSACTIONS_PAIRED]
    rows.append([spark_contest.GROUP, spark_contest.NAME, spark_contest.SUMMARY])
    rows += [[benchmark.group, benchmark.name, benchmark.summary] for benchmark in SPARK_ALONE]
    rows += [[flow_contest.GROUP, name, summary] for name, summary in flow_contest.SUMMARIES]
    rows += [["compare", work.name, f"{work.summary}; per {work.unit}"] for work in WORKS]
    show_table("Benchmarks", ["group", "name", "what"], rows, left=3)
    peers = [[peer.name, peer.note, peer.unavailable() or "ready"] for peer in contest.PEERS]
    show_table("Peers of compare", ["peer", "what", "here"], peers, left=3)
    peers = [[peer.name, peer.note, peer.unavailable() or "ready"] for work in KAFKA_WORKS for peer in work.peers]
    show_table("Peers of kafka", ["peer", "what", "here"], peers, left=3)


def say(line: str) -> None:
    """Show progress, apart from the results."""
    print(line, file=sys.stderr, flush=True)
