"""The Markdown report: machine, targets with their verdicts, all figures."""

from collections.abc import Mapping, Sequence

from bench.render import measured_rows, number, pairing_row
from bench.results import Results
from bench.targets import Verdict, verdicts


def markdown(results: Results, machine: Mapping[str, str], settings: Mapping[str, str], date: str, *, whole: bool = True) -> str:
    """Return the report of one run; of a part of it with the targets that were measured."""
    judged = [_verdict_row(verdict) for verdict in verdicts(results) if whole or verdict.value is not None]
    parts = [f"Measured on {date}. " + "; ".join(f"{name} {value}" for name, value in (*machine.items(), *settings.items())) + ".", ""]
    parts += table(["work", "to reach", "bound", "measured", "verdict", "detail"], judged)
    if results.pairings:
        header = ["work", "peer", "own ns", "min - max", "peer ns", "min - max", "time ratio", "pairwise", "speed ratio"]
        parts += ["", "Beside peers, alternating; ratios are of medians.", ""]
        parts += table(header, [pairing_row(item) for item in results.pairings])
        notes = {item.peer: item.note for item in results.pairings}
        parts += ["", *(f"- {peer}: {note}" for peer, note in notes.items())]
    if results.measured:
        parts += ["", "Alone.", ""]
        rows = [row for item in results.measured for row in measured_rows(item)]
        parts += table(["benchmark", "figure", "median", "min - max", "unit", "runs"], rows)
    parts += ["", *(f"- Not measured: {missing.name}: {missing.reason.splitlines()[0]}" for missing in results.missing)]
    return "\n".join(parts).rstrip() + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table.

    >>> table(["a", "b"], [["1", "2"]])
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *("| " + " | ".join(row) + " |" for row in rows)]


def _verdict_row(verdict: Verdict) -> Sequence[str]:
    target = verdict.target
    value = "" if verdict.value is None else f"{number(verdict.value)}{target.unit}"
    return (target.work, target.what, target.bound_text, value, verdict.text, verdict.detail)
