"""Writes the tables of settings into the guides, from the dataclasses: `python -m tests.project.settings_tables`."""

import ast
import dataclasses
import inspect
from pathlib import Path
from typing import Any

from engine.config import settings_of
from engine.files import FileSettings
from engine.flow import FlowSettings
from engine.kafka import KafkaSecurity, KafkaSinkConfig, KafkaSpoutConfig
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaCommitterConfig

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLES: dict[Path, tuple[type[Any], ...]] = {
    DOCS / "KAFKA.md": (KafkaSpoutConfig, KafkaSinkConfig, KafkaBatchSpoutConfig, KafkaCommitterConfig, KafkaSecurity),
    DOCS / "FILES.md": (FileSettings,),
    DOCS / "FLOW.md": (FlowSettings,),
}
NEEDED = "needed"


def table(settings_class: type[Any]) -> str:
    """Return one row for each setting: name, default with other choices, and help or the text below the field."""
    declared = settings_of(settings_class)
    notes = _notes(settings_class)
    lines = ["| setting | default | is |", "|---|---|---|"]
    for field in dataclasses.fields(settings_class):
        spec = declared.get(field.name)
        meaning = notes.get(field.name, "") if spec is None else spec.help
        others = [f'`"{choice}"`' for choice in (spec.choices if spec else ()) if choice != field.default]
        lines.append(f"| `{field.name}` | {'; '.join([_default(field), *others])} | {_cell(meaning)} |")
    return "\n".join([*lines, ""])


def _notes(settings_class: type[Any]) -> dict[str, str]:
    """The texts that stand below fields, as docstrings do."""
    (body,) = ast.parse(inspect.getsource(settings_class)).body
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        first.target.id: second.value.value
        for first, second in pairs
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name) and _is_text(second)
    }


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return NEEDED if field.default_factory is dataclasses.MISSING else "none"
    if field.default is None or field.default == ():
        return "none"
    if isinstance(field.default, (int, float)) and not isinstance(field.default, bool):
        return f"{field.default:,.10g}" if isinstance(field.default, float) else f"{field.default:,}"
    if isinstance(field.default, (str, bool)):
        return f"`{field.default!r}`".replace("'", '"')
    return f"`{field.default.__name__}`" if callable(field.default) else f"`{type(field.default).__name__}(…)`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def with_tables(page: Path) -> str:
    """Return a page with each of its tables between its marks."""
    text = page.read_text(encoding="utf-8")
    for settings_class in TABLES[page]:
        begin, end = (f"<!-- {settings_class.__name__}:{mark} -->\n" for mark in ("begin", "end"))
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = head + begin + table(settings_class) + end + tail
    return text


if __name__ == "__main__":
    for each in TABLES:
        each.write_text(with_tables(each), encoding="utf-8")
