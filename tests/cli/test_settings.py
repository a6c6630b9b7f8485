"""Settings in layers: their priority, their sources, and all faults of all sources together."""

import json
from pathlib import Path

import pytest

from engine.cli.settings import Settings, read_settings, setting_rows, settings_json, settings_table
from engine.config import SETTINGS, Config
from engine.errors import ConfigError


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "run.toml"


def _faults_of_file(toml: Path, text: str) -> tuple[str, ...]:
    toml.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_settings(config_file=toml)
    return caught.value.faults


def _faults(*, flags: tuple[str, ...] = (), environ: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read_settings(flags=flags, environ=environ)
    return caught.value.faults


def test_without_a_source_all_settings_have_their_defaults() -> None:
    settings = read_settings()

    assert settings.config == Config()
    assert set(settings.origin.values()) == {"default"}
    assert list(settings.origin) == list(SETTINGS)


def test_a_later_source_overrides_an_earlier_one(toml: Path) -> None:
    toml.write_text("[engine]\nburst = 2\nkey_groups = 2\nacker_executors = 2\n", encoding="utf-8")

    settings = read_settings(
        file_config={"burst": 1, "key_groups": 1, "acker_executors": 1, "seed": 1},
        topology_file=Path("words.py"),
        config_file=toml,
        environ={"ENGINE_BURST": "3", "ENGINE_KEY_GROUPS": "3", "HOME": "/"},
        flags=["burst=4"],
    )

    config, origin = settings.config, settings.origin
    assert (config.seed, config.acker_executors, config.key_groups, config.burst) == (1, 2, 3, 4)
    assert origin["message_timeout_secs"] == "default"
    assert origin["seed"] == "words.py: config seed"
    assert origin["acker_executors"] == f"{toml}: [engine] acker_executors"
    assert origin["key_groups"] == "ENGINE_KEY_GROUPS"
    assert origin["burst"] == "-c burst"


def test_only_changed_values_of_a_config_object_count() -> None:
    settings = read_settings(file_config=Config(burst=8), topology_file=Path("words.py"))

    assert settings.config.burst == 8
    assert [name for name, origin in settings.origin.items() if origin != "default"] == ["burst"]


def test_the_last_of_two_equal_flags_wins() -> None:
    assert read_settings(flags=["burst=4", "burst = 5"]).config.burst == 5


def test_none_removes_a_limit_in_every_source(toml: Path) -> None:
    toml.write_text('[engine]\nmax_spout_pending = "none"\n', encoding="utf-8")
    limited = {"max_spout_pending": 5}

    assert read_settings(file_config=limited, config_file=toml).config.max_spout_pending is None
    assert read_settings(file_config=limited, environ={"ENGINE_MAX_SPOUT_PENDING": "none"}).config.max_spout_pending is None
    assert read_settings(file_config=limited, flags=["max_spout_pending=none"]).config.max_spout_pending is None


@pytest.mark.guarantee("FC-8")
def test_auto_is_accepted_in_every_source(toml: Path) -> None:
    toml.write_text('[engine]\nmax_spout_pending = "auto"\n', encoding="utf-8")
    limited = {"max_spout_pending": 5}

    assert read_settings(file_config={"max_spout_pending": "auto"}).config.max_spout_pending == "auto"
    assert read_settings(file_config=limited, config_file=toml).config.max_spout_pending == "auto"
    assert read_settings(file_config=limited, environ={"ENGINE_MAX_SPOUT_PENDING": "AUTO"}).config.max_spout_pending == "auto"
    assert read_settings(file_config=limited, flags=["max_spout_pending=auto"]).config.max_spout_pending == "auto"
    with pytest.raises(
        ConfigError, match="-c max_spout_pending must be an integer from 1 to 2_147_483_647, 'auto', or none, not 'automatic'"
    ):
        read_settings(flags=["max_spout_pending=automatic"])


def test_all_faults_of_all_sources_are_reported_together_with_their_places(toml: Path) -> None:
    toml.write_text("[engine]\nburst = 0\nkey_group = 1\n", encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        read_settings(
            file_config={"seed": "x", "database": "y"},
            topology_file=Path("words.py"),
            config_file=toml,
            environ={"ENGINE_KEY_GROUPS": "many"},
            flags=["on_error=retry", "burst", "mesage_timeout_secs=3"],
        )

    assert caught.value.exit_status == 2
    assert [fault.split(" must be")[0].split(". ")[0] for fault in caught.value.faults] == [
        "words.py: config seed",
        "words.py: config: 'database' is not a setting",
        f"{toml}: [engine] burst",
        f"{toml}: [engine]: 'key_group' is not a setting",
        "ENGINE_KEY_GROUPS",
        "-c on_error",
        "-c 'burst' has no value",
        "-c: 'mesage_timeout_secs' is not a setting",
    ]


def test_a_contradiction_names_both_places() -> None:
    faults = _faults(environ={"ENGINE_TIMEOUT_FROM": "emit"}, flags=("enable_message_timeouts=no",))

    (fault,) = faults
    assert fault.startswith("ENGINE_TIMEOUT_FROM and -c enable_message_timeouts: timeout_from='emit' says")


def test_an_overridden_value_cannot_contradict_others() -> None:
    settings = read_settings(environ={"ENGINE_TIMEOUT_FROM": "emit"}, flags=["enable_message_timeouts=no", "timeout_from=progress"])

    assert settings.config.enable_message_timeouts is False


def test_errors_of_flags_show_the_right_form() -> None:
    assert _faults(flags=("burst",)) == ("-c 'burst' has no value. Write -c burst=…",)
    assert _faults(flags=("=3",))[0].startswith("-c: '' is not a setting. ")
    assert _faults(flags=("burst=",)) == ("-c burst must be an integer from 1 to 1_048_576, not ''.",)
    assert _faults(flags=("max.spout.pending=3",)) == ("-c: 'max.spout.pending' is not a setting. Did you mean 'max_spout_pending'?",)


@pytest.mark.parametrize("variable", ["ENGINE_BURTS", "ENGINE_burst", "ENGINE_BURST_"])
def test_a_variable_with_an_almost_right_name_is_ignored_with_a_note(variable: str) -> None:
    settings = read_settings(environ={variable: "3"})

    assert settings.config.burst == Config().burst
    assert settings.notes == (f"{variable} is ignored: no setting has this name. Did you mean ENGINE_BURST?",)


@pytest.mark.guarantee("RUN-4")
def test_variables_of_other_programs_are_ignored() -> None:
    """Kubernetes sets these for a Service called `engine`."""
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP", "PORT_8080_TCP_ADDR", "", "ROOM")
    settings = read_settings(environ={f"ENGINE_{name}": "tcp://10.0.0.1:8080" for name in names})

    assert settings.config == Config()
    assert settings.notes == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("burst = 3\n", "burst is outside of a table. Move it under [engine]."),
        ("[enigne]\nburst = 3\n", "has no table [engine] (it has [enigne]). Move the engine's settings under [engine]."),
        ("engine = 3\n", "engine is not a table."),
        ("[engine]\nburst = 3\nburst = 4\n", "is not valid TOML: Cannot overwrite a value (at line 3"),
        ("[engine\n", "is not valid TOML: "),
        ('[engine]\nburst = "3"\n', "[engine] burst must be an integer from 1 to 1_048_576, not '3'."),
        ("[engine]\nburst = 2020-01-01\n", "[engine] burst must be an integer from 1 to 1_048_576, not datetime.date(2020, 1, 1) (date)."),
        ("[engine.burst]\nx = 3\n", "not {'x': 3} (dict)."),
    ],
)
def test_a_fault_in_a_toml_file_names_file_and_key(toml: Path, text: str, part: str) -> None:
    faults = _faults_of_file(toml, text)

    assert faults[0].startswith(str(toml))
    assert part in faults[0]


@pytest.mark.parametrize("text", ["", "# nothing\n", "[engine]\n", "[engine]\nburst = 3\n[mine]\nkey = 1\n"])
def test_an_empty_file_and_foreign_tables_are_accepted(toml: Path, text: str) -> None:
    toml.write_text(text, encoding="utf-8")

    assert read_settings(config_file=toml).config.key_groups == 128


def test_a_toml_file_that_is_not_utf8_is_a_fault(toml: Path) -> None:
    toml.write_bytes(b"[engine]\n# \xff\n")

    with pytest.raises(ConfigError, match=r"is not UTF-8 \(byte 11\)"):
        read_settings(config_file=toml)


def test_a_missing_toml_file_names_the_nearest(toml: Path) -> None:
    toml.write_text("", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"^configuration: --config: .*rum\.toml does not exist\. Did you mean .*run\.toml\?$"):
        read_settings(config_file=toml.with_name("rum.toml"))


def test_a_folder_or_another_kind_of_file_is_refused(toml: Path) -> None:
    other = toml.with_name("run.ini")
    other.write_text("", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"is a folder\. Name a file in it\. There is no \.toml file in"):
        read_settings(config_file=toml.parent)
    with pytest.raises(ConfigError, match=r"run\.ini is not a \.toml file"):
        read_settings(config_file=other)


def test_show_lists_each_setting_with_its_source_and_help() -> None:
    rows = {row.key: row for row in setting_rows(read_settings(flags=["burst=4"]))}

    assert list(rows) == list(SETTINGS)
    assert (rows["burst"].value, rows["burst"].origin) == (4, "-c burst")
    assert rows["burst"].help == SETTINGS["burst"].help


def test_the_table_is_aligned_and_writes_values_like_flags() -> None:
    lines = settings_table(setting_rows(read_settings())).splitlines()

    assert lines[0].split() == ["setting", "value", "from", "meaning"]
    start = lines[0].index("from")
    assert all(line[start:].startswith("default ") for line in lines[1:])
    assert any(line.startswith("max_spout_pending ") and " none " in line for line in lines)
    assert any(line.startswith("enable_message_timeouts ") and " true " in line for line in lines)


def test_values_of_the_table_can_be_passed_as_flags() -> None:
    settings = read_settings(flags=["timeout_from=emit", "message_timeout_secs=2.5", "seed=3"])
    rows = (line.split(maxsplit=2) for line in settings_table(setting_rows(settings)).splitlines()[1:])

    assert read_settings(flags=[f"{key}={value}" for key, value, _ in rows]).config == settings.config


def test_the_json_form_keeps_types() -> None:
    shown = json.loads(settings_json(setting_rows(read_settings(flags=["burst=4"]))))

    assert shown["burst"] == {"value": 4, "origin": "-c burst", "help": SETTINGS["burst"].help}
    assert shown["max_spout_pending"]["value"] is None


def test_the_table_describes_every_setting() -> None:
    text = settings_table(setting_rows(read_settings()))
    assert all(spec.help in text for spec in SETTINGS.values())


def test_settings_are_equal_by_value() -> None:
    assert read_settings() == Settings(Config(), dict.fromkeys(SETTINGS, "default"))
