"""Every key of Storm is a setting, or has an answer with an alternative."""

import re
from pathlib import Path

import pytest

from engine.api import BasicBolt, TaskContext
from engine.api.bolt import BoltBase
from engine.config import SETTING_OF_STORM_KEY, SETTINGS, Config, storm_keys, unknown_key
from engine.config.storm_keys import answer_for_storm_key
from engine.errors import ConfigError
from engine.runtime.run import Run
from engine.topology import BoltDeclarer, TopologyBuilder
from tests.project.pages import ROOT

ALL = [key for key in Path(__file__).with_name("storm_keys.txt").read_text(encoding="utf-8").splitlines() if not key.startswith("#")]
ANSWERED = [key for key in ALL if key not in SETTING_OF_STORM_KEY]


@pytest.mark.guarantee("RUN-4")
@pytest.mark.parametrize("key", ALL)
def test_every_key_of_storm_is_a_setting_or_has_an_answer(key: str) -> None:
    assert (SETTING_OF_STORM_KEY.get(key) in SETTINGS) != (answer_for_storm_key(key) is not None)


def test_the_tables_have_only_keys_of_storm() -> None:
    used = {beginning for beginning in storm_keys._ANSWERS for key in ANSWERED if f"{key}.".startswith(f"topology.{beginning}.")}

    assert used == set(storm_keys._ANSWERS)
    assert set(SETTING_OF_STORM_KEY) <= set(ALL)


@pytest.mark.parametrize("key", ANSWERED)
def test_answers_are_whole_sentences(key: str) -> None:
    answer = answer_for_storm_key(key)

    assert answer is not None
    assert answer[0].isupper()
    assert answer.endswith(".")


def test_answers_name_only_existing_settings() -> None:
    words = {word for answer in storm_keys._ANSWERS.values() for word in re.findall(r"\b[a-z]+_[a-z_]+\b", answer)}
    attributes = (BoltBase, BasicBolt, BoltDeclarer, TopologyBuilder, TaskContext, Run)

    assert {word for word in words if word not in SETTINGS and not any(hasattr(owner, word) for owner in attributes)} == {"on_report"}


def test_the_longest_prefix_of_whole_words_decides() -> None:
    assert "run.metrics_text()" in str(answer_for_storm_key("topology.worker.metrics"))
    assert "threads=n" in str(answer_for_storm_key("topology.worker.shared.thread.pool.size"))
    assert answer_for_storm_key("topology.workerz") is None
    assert answer_for_storm_key("workers") is None


def test_entries_of_a_map_have_the_answer_of_their_key() -> None:
    assert answer_for_storm_key("topology.environment.PATH") == answer_for_storm_key("topology.environment")


@pytest.mark.parametrize("key", SETTING_OF_STORM_KEY)
def test_the_error_of_config_for_a_storm_key_names_the_setting(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config(**{key: 3})

    assert caught.value.faults == (f"{key!r} is not a setting. Did you mean {SETTING_OF_STORM_KEY[key]!r}?",)


def test_the_error_of_config_for_a_storm_key_without_a_setting_says_why() -> None:
    with pytest.raises(ConfigError, match=r"'topology\.workers' is not a setting\. A run is one Python process\."):
        Config.from_mapping({"topology.workers": 4})


def test_the_error_for_a_misspelt_storm_key_names_the_nearest_setting() -> None:
    assert unknown_key("topology.max.spout.pendin") == "'topology.max.spout.pendin' is not a setting. Did you mean 'max_spout_pending'?"


def test_the_page_has_every_key() -> None:
    page = (ROOT / "docs" / "STORM.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(topology\.[\w.\-…]+)`", page))
    begun = tuple(name.removesuffix("…") for name in named if name.endswith("…"))

    assert [key for key in ALL if key not in named and not key.startswith(begun)] == []
    assert [key for key in SETTING_OF_STORM_KEY if f"`{key}`" not in page] == []
