"""Draws the state machine of checkpoints into docs/STATE.md, from its table: `python -m tests.checkpoint.machine_page`."""

import re
from pathlib import Path

from engine.checkpoint.machine import TABLE, Step

PAGE = Path(__file__).resolve().parents[2] / "docs" / "STATE.md"
MARKS = re.compile(r"(<!-- machine:begin -->\n).*?(<!-- machine:end -->)", re.DOTALL)


def drawn() -> str:
    """Return the table as a state diagram. A state is the saved phase with the current step, and an edge is an event."""
    lines = ["```mermaid", "stateDiagram-v2"]
    states = dict.fromkeys((phase, step) for phase, step, _ in TABLE)
    for phase, step in states:
        lines.append(f'    state "{phase.upper()}: {step.value}" as {_name(phase, step)}')
    lines += [f"    [*] --> {_name(phase, step)}" for phase, step in states if step is Step.IDLE]
    for (phase, step, event), to in TABLE.items():
        moves = f", txid {to.moves:+d}" if to.moves else ""
        lines.append(f"    {_name(phase, step)} --> {_name(to.phase, to.step)}: {event.value}{moves}")
    return "\n".join([*lines, "```", ""])


def _name(phase: str, step: Step) -> str:
    return f"{phase}_{step.name.lower()}"


def with_drawing(text: str) -> str:
    """Return the page with the diagram between its marks."""
    return MARKS.sub(lambda found: found[1] + drawn() + found[2], text)


if __name__ == "__main__":
    PAGE.write_text(with_drawing(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
