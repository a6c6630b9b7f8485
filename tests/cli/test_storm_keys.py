"""Storm's keys in a TOML file and behind `-c` are accepted with a note, or refused with a hint."""

from pathlib import Path

import pytest

from engine.cli.main import run_command_line
from engine.cli.settings import read_settings
from engine.config import SETTING_OF_STORM_KEY, SETTINGS
from engine.errors import ConfigError
from tests.cli.topology_files import Write

pytestmark = pytest.mark.guarantee("RUN-4")

PENDING = "topology.max.spout.pending"
NOTE = "'topology.max.spout.pending' is max_spout_pending here"
VALUES = {
    "topology.acker.executors": ("2", 2),
    "topology.ackers": ("2", 2),
    "topology.enable.message.timeouts": ("false", False),
    "topology.executor.receive.buffer.size": ("1024", 1024),
    "topology.max.spout.pending": ("100", 100),
    "topology.message.timeout.secs": ("20", 20.0),
    "topology.state.checkpoint.interval.ms": ("500", 500.0),
}


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "storm.toml"


def _faults(toml: Path, text: str = "", *flags: str) -> tuple[str, ...]:
    toml.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_settings(config_file=toml, flags=flags)
    return caught.value.faults


def test_every_accepted_key_has_an_example_value() -> None:
    assert VALUES.keys() == SETTING_OF_STORM_KEY.keys()


@pytest.mark.parametrize("key", VALUES)
def test_a_flag_accepts_a_storm_key_with_a_note(key: str) -> None:
    text, value = VALUES[key]
    name = SETTING_OF_STORM_KEY[key]

    settings = read_settings(flags=[f"{key}={text}"])

    assert getattr(settings.config, name) == value
    assert settings.origin[name] == f"-c {key}"
    assert settings.notes == (f"{key!r} is {name} here",)


@pytest.mark.parametrize("key", VALUES)
@pytest.mark.parametrize("form", ['[engine]\n"{key}" = {text}\n', "[engine]\n{key} = {text}\n", '"{key}" = {text}\n', "{key} = {text}\n"])
def test_a_file_accepts_a_storm_key_with_a_note(key: str, form: str, toml: Path) -> None:
    text, value = VALUES[key]
    name = SETTING_OF_STORM_KEY[key]
    toml.write_text(form.format(key=key, text=text), encoding="utf-8")

    settings = read_settings(config_file=toml)

    assert getattr(settings.config, name) == value
    assert settings.origin[name] == f"{toml}: {'[engine] ' if 'engine]' in form else ''}{key}"
    assert settings.notes == (f"{key!r} is {name} here",)


@pytest.mark.parametrize(
    "text",
    [
        "[topology.max]\nspout.pending = 10\n",
        "[topology.max.spout]\npending = 10\n",
        '[topology]\n"max.spout.pending" = 10\n',
        "[engine.topology.max]\nspout.pending = 10\n",
        "[engine]\ntopology = {max.spout.pending = 10}\n",
        '"topology.max" = {spout.pending = 10}\n[mine]\ncolor = "red"\n',
    ],
)
def test_nested_tables_are_dotted_keys(text: str, toml: Path) -> None:
    toml.write_text(text, encoding="utf-8")

    settings = read_settings(config_file=toml)

    assert settings.config.max_spout_pending == 10
    assert settings.notes == (NOTE,)


def test_storm_keys_and_settings_can_be_mixed(toml: Path) -> None:
    toml.write_text("[engine]\nburst = 8\ntopology.max.spout.pending = 10\n[topology.message]\ntimeout.secs = 20\n", encoding="utf-8")

    config = read_settings(config_file=toml).config

    assert (config.burst, config.max_spout_pending, config.message_timeout_secs) == (8, 10, 20.0)


def test_a_repeated_key_is_noted_once(toml: Path) -> None:
    toml.write_text("topology.max.spout.pending = 10\n", encoding="utf-8")

    settings = read_settings(config_file=toml, flags=[f"{PENDING}=20", f"{PENDING}=30", "topology.ackers=2"])

    assert settings.config.max_spout_pending == 30
    assert settings.notes == (NOTE, "'topology.ackers' is acker_executors here")


def test_a_file_without_storm_keys_has_no_notes(toml: Path) -> None:
    toml.write_text("[engine]\nburst = 8\n", encoding="utf-8")

    assert read_settings(config_file=toml, flags=["seed=1"]).notes == ()


def test_a_flag_overrides_the_storm_key_of_a_file_and_the_other_way_round(toml: Path) -> None:
    toml.write_text("topology.max.spout.pending = 10\n", encoding="utf-8")
    assert read_settings(config_file=toml, flags=["max_spout_pending=20"]).config.max_spout_pending == 20

    toml.write_text("[engine]\nmax_spout_pending = 10\n", encoding="utf-8")
    assert read_settings(config_file=toml, flags=[f"{PENDING}=20"]).config.max_spout_pending == 20


def test_none_removes_a_limit(toml: Path) -> None:
    toml.write_text('topology.max.spout.pending = "none"\n', encoding="utf-8")

    assert read_settings(file_config={"max_spout_pending": 5}, config_file=toml).config.max_spout_pending is None


def test_a_wrong_value_names_the_key_that_was_written_and_its_source(toml: Path) -> None:
    expected = SETTINGS["max_spout_pending"].expected()

    assert _faults(toml, "", f"{PENDING}=many") == (f"-c {PENDING} must be {expected}, not 'many'.",)
    assert _faults(toml, "topology.max.spout.pending = 0\n") == (f"{toml}: {PENDING} must be {expected}, not 0.",)
    assert _faults(toml, "[engine.topology.max]\nspout.pending = 0\n") == (f"{toml}: [engine] {PENDING} must be {expected}, not 0.",)
    assert _faults(toml, "", PENDING) == (f"-c '{PENDING}' has no value. Write -c {PENDING}=…",)


def test_a_contradiction_names_the_key_that_was_written(toml: Path) -> None:
    (fault,) = _faults(toml, "topology.enable.message.timeouts = false\n", "timeout_from=emit")

    assert fault.startswith(f"-c timeout_from and {toml}: topology.enable.message.timeouts: ")


def test_two_spellings_of_one_setting_in_a_file_are_refused(toml: Path) -> None:
    text = '[engine]\nmax_spout_pending = 1\n"topology.max.spout.pending" = 2\n[topology.max]\nspout.pending = 3\n'
    first = f"{toml}: [engine] max_spout_pending"

    assert _faults(toml, text) == (
        f"{toml}: [engine] {PENDING} and {first} are the same setting. Remove one of the two.",
        f"{toml}: {PENDING} and {first} are the same setting. Remove one of the two.",
    )


def test_a_key_without_a_counterpart_is_refused_with_a_hint(toml: Path) -> None:
    assert _faults(toml, "[engine]\ntopology.workers = 4\n", "topology.debug=true") == (
        f"{toml}: [engine]: 'topology.workers' is not a setting. A run is one Python process. "
        "Write parallelism in set_spout() or set_bolt(): the number of tasks of that component.",
        "-c: 'topology.debug' is not a setting. "
        "Set trace_sample_rate (0 to 1): the share of trees whose path through the components is recorded.",
    )


def test_a_value_called_topology_is_not_a_setting(toml: Path) -> None:
    (fault,) = _faults(toml, "topology = 3\n")

    assert fault.startswith(f"{toml}: 'topology' is not a setting. ")


def test_a_foreign_table_called_topology_must_be_renamed(toml: Path) -> None:
    faults = _faults(toml, '[topology]\nname = "words"\ncolor = "red"\n')

    assert [fault.split(" is not")[0] for fault in faults] == [f"{toml}: 'topology.name'", f"{toml}: 'topology.color'"]
    assert all(fault.endswith("If [topology] is your own table, rename it.") for fault in faults)


@pytest.mark.parametrize("command", ["run", "check"])
def test_the_note_goes_to_standard_error(command: str, write: Write, toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml.write_text("topology.max.spout.pending = 10\n", encoding="utf-8")
    topology = write("words = _builder('words').build()\n")

    assert run_command_line([command, topology, "--config", str(toml), "-c", f"{PENDING}=20"]) == 0

    captured = capsys.readouterr()
    assert captured.err.splitlines().count(NOTE) == 1
    assert NOTE not in captured.out


def test_a_refused_key_ends_the_command_with_2(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    topology = write("words = _builder('words').build()\n")

    assert run_command_line(["check", topology, "-c", "topology.workers=4"]) == 2
    assert "'topology.workers' is not a setting. A run is one Python process." in capsys.readouterr().err
