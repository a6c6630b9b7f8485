"""Reserved names, and suggestions for misspelt names."""

import pytest

from engine.names import DEFAULT_STREAM, did_you_mean, is_reserved, nearest


@pytest.mark.guarantee("GRP-5")
@pytest.mark.parametrize(
    ("name", "reserved"), [("__acker", True), ("$tick", True), ("_mine", False), ("a__b", False), (DEFAULT_STREAM, False)]
)
def test_two_prefixes_are_reserved_for_the_engine(name: str, reserved: bool) -> None:
    assert is_reserved(name) is reserved


def test_the_nearest_name_ignores_case_and_small_slips() -> None:
    assert nearest("wrod", ["line", "word"]) == "word"
    assert nearest("WORD", ["line", "Word"]) == "Word"
    assert nearest("temperature", ["line", "word"]) is None
    assert nearest("word", []) is None


def test_did_you_mean_lists_all_names_if_none_is_near() -> None:
    assert did_you_mean("wrod", ["line", "word"]) == "Did you mean 'word'?"
    assert did_you_mean("temperature", ["word", "line"]) == "Known: 'line', 'word'."
    assert did_you_mean("temperature", []) == "There are none."
