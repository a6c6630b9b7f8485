"""The tables of Kafka's settings say what the code says."""

import pytest

from tests.project.settings_tables import PAGE, TABLES, table, with_tables


@pytest.mark.parametrize("settings_class", TABLES)
def test_the_table_is_that_of_the_code(settings_class: type) -> None:
    """Where this fails: python -m tests.project.settings_tables."""
    page = PAGE.read_text(encoding="utf-8")
    assert table(settings_class) in page
    assert with_tables(page) == page


@pytest.mark.parametrize("settings_class", TABLES)
def test_every_setting_is_explained(settings_class: type) -> None:
    assert not [line for line in table(settings_class).splitlines() if line.endswith("|  |")]
