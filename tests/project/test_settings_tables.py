"""The tables of settings say what the code says."""

from pathlib import Path

import pytest

from tests.project.settings_tables import TABLES, table, with_tables

CLASSES = [settings_class for classes in TABLES.values() for settings_class in classes]


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.name)
def test_the_tables_are_those_of_the_code(page: Path) -> None:
    """If this fails, run python -m tests.project.settings_tables."""
    text = page.read_text(encoding="utf-8")
    assert all(table(settings_class) in text for settings_class in TABLES[page])
    assert with_tables(page) == text


@pytest.mark.parametrize("settings_class", CLASSES)
def test_every_setting_is_explained(settings_class: type) -> None:
    assert not [line for line in table(settings_class).splitlines() if line.endswith("|  |")]
