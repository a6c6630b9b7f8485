"""`Config` accepts valid values, and reports all faults of others at once."""

import copy
import dataclasses
import enum
import inspect
import pickle
from typing import Any, Literal, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import SETTINGS, Config, Setting, SettingFault
from engine.errors import ConfigError


def _faults(**values: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        Config(**values)
    return caught.value.faults


def test_the_defaults_equal_storms() -> None:
    config = Config()

    assert config.acker_executors == 1
    assert config.message_timeout_secs == 30.0
    assert config.max_spout_pending is None
    assert config.executor_receive_buffer_size == 32768


def test_a_config_is_frozen_comparable_and_survives_pickling() -> None:
    config = Config(max_spout_pending=10)

    with pytest.raises(dataclasses.FrozenInstanceError):
        config.burst = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config
    assert hash(config) == hash(Config(max_spout_pending=10))
    assert config != Config()


def test_an_integer_is_accepted_for_a_float() -> None:
    timeout = Config(message_timeout_secs=3).message_timeout_secs

    assert timeout == 3.0
    assert isinstance(timeout, float)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"acker_executors": -1}, "acker_executors must be an integer from 0 to 4_096, not -1."),
        ({"burst": True}, "burst must be an integer from 1 to 1_048_576, not True."),
        ({"burst": 2.0}, "burst must be an integer from 1 to 1_048_576, not 2.0."),
        ({"burst": "2"}, "burst must be an integer from 1 to 1_048_576, not '2'."),
        ({"burst": None}, "burst must be an integer from 1 to 1_048_576, not None."),
        ({"max_spout_pending": 0}, "max_spout_pending must be an integer from 1 to 2_147_483_647, 'auto', or none, not 0."),
        ({"message_timeout_secs": 0}, "message_timeout_secs must be a number above 0, not 0."),
        ({"message_timeout_secs": False}, "message_timeout_secs must be a number above 0, not False."),
        ({"message_timeout_secs": float("inf")}, "message_timeout_secs must be a number above 0, not inf."),
        ({"trace_sample_rate": float("nan")}, "trace_sample_rate must be a number from 0 to 1, not nan."),
        ({"trace_sample_rate": 1.5}, "trace_sample_rate must be a number from 0 to 1, not 1.5."),
        ({"seed": -1}, "seed must be an integer from 0 to 18_446_744_073_709_551_615, or none, not -1."),
        ({"enable_message_timeouts": 1}, "enable_message_timeouts must be true or false, not 1."),
        ({"message_timeout_secs": 10**5000}, "message_timeout_secs must be a number above 0, not an integer of 16610 bits."),
        ({"on_error": "retry"}, "on_error must be 'fail', 'restart' or 'stop', not 'retry'."),
        ({"on_error": ["fail"]}, "on_error must be 'fail', 'restart' or 'stop', not ['fail'] (list)."),
    ],
)
def test_a_wrong_value_is_one_clear_fault(values: dict[str, Any], fault: str) -> None:
    assert _faults(**values) == (fault,)


def test_a_huge_wrong_value_is_shortened_in_the_error() -> None:
    (fault,) = _faults(on_error="x" * 10_000)

    assert len(fault) < 150


def test_all_faults_are_reported_together() -> None:
    faults = _faults(burst=0, on_error="retry", mesage_timeout_secs=3, timeout_from="emit", enable_message_timeouts=False)

    assert [fault.split()[0] for fault in faults] == ["'mesage_timeout_secs'", "burst", "on_error", "timeout_from='emit'"]


@pytest.mark.parametrize("key", ["message_timeout_sec", "topology.message.timeout.secs", "MESSAGE-TIMEOUT-SECS"])
def test_the_error_for_an_unknown_key_names_the_nearest(key: str) -> None:
    assert _faults(**{key: 3}) == (f"{key!r} is not a setting. Did you mean 'message_timeout_secs'?",)


@pytest.mark.parametrize(("key", "setting"), [("ackers", "acker_executors"), ("batch", "batch_interval_ms")])
def test_the_error_for_a_part_of_a_key_names_the_setting(key: str, setting: str) -> None:
    assert _faults(**{key: 3}) == (f"{key!r} is not a setting. Did you mean {setting!r}?",)


def test_the_error_for_a_key_without_a_near_one_lists_the_settings() -> None:
    (fault,) = _faults(zzz=3)

    assert fault.startswith("'zzz' is not a setting. The settings are acker_executors, message_timeout_secs, ")


@pytest.mark.guarantee("ACK-8")
def test_timeout_from_emit_is_refused_if_timeouts_are_off() -> None:
    (fault,) = _faults(timeout_from="emit", enable_message_timeouts=False)

    assert fault.endswith("Remove one of the two.")


def test_positional_settings_are_refused() -> None:
    with pytest.raises(TypeError):
        Config(1)  # type: ignore[call-arg]


def test_replace_validates_the_whole_config_again() -> None:
    config = Config(timeout_from="emit", seed=4)

    assert config.replace(burst=8) == Config(timeout_from="emit", seed=4, burst=8)
    with pytest.raises(ConfigError, match="Remove one of the two"):
        config.replace(enable_message_timeouts=False)
    with pytest.raises(ConfigError, match="Did you mean 'burst'"):
        config.replace(bursts=8)


def test_errors_of_from_mapping_name_the_source() -> None:
    assert Config.from_mapping({"burst": 8}) == Config(burst=8)
    with pytest.raises(ConfigError, match=r"^settings\.json: burst must be"):
        Config.from_mapping({"burst": "8"}, "settings.json")
    with pytest.raises(ConfigError, match="the key 8 is not a string"):
        Config.from_mapping({8: "burst"})  # type: ignore[dict-item]


def test_every_setting_is_described_and_its_default_is_valid() -> None:
    assert list(SETTINGS) == [field.name for field in dataclasses.fields(Config)]
    for name, spec in SETTINGS.items():
        assert spec.help.endswith("."), name
        assert spec.check(spec.default) == spec.default, name


def test_the_constructor_keeps_its_signature() -> None:
    assert list(inspect.signature(Config).parameters) == list(SETTINGS)
    assert get_type_hints(Config)["max_spout_pending"] == int | Literal["auto"] | None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("burst", " 1_000 ", 1000),
        ("max_spout_pending", "None", None),
        ("max_spout_pending", "5", 5),
        ("message_timeout_secs", "1e3", 1000.0),
        ("message_timeout_secs", "7", 7.0),
        ("on_error", "FAIL", "fail"),
        *(("enable_message_timeouts", text, True) for text in ("true", "Yes", "on", "1")),
        *(("enable_message_timeouts", text, False) for text in ("false", "NO", "off", "0")),
    ],
)
def test_text_is_parsed_by_the_type_of_its_setting(name: str, text: str, value: object) -> None:
    parsed = SETTINGS[name].parse(text)

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("burst", ""),
        ("burst", "none"),
        ("burst", "8.5"),
        ("burst", "8 tuples"),
        ("message_timeout_secs", "30s"),
        ("message_timeout_secs", "nan"),
        ("enable_message_timeouts", "maybe"),
        ("on_error", "retry"),
    ],
)
def test_the_error_for_an_invalid_text_shows_valid_ones(name: str, text: str) -> None:
    with pytest.raises(SettingFault) as caught:
        SETTINGS[name].parse(text)

    assert str(caught.value).startswith(f"must be {SETTINGS[name].expected()}, not ")


_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.lists(st.integers(), max_size=2)
)


@given(st.sampled_from(list(SETTINGS.values())), _VALUES)
def test_any_value_is_either_accepted_or_a_fault(spec: Setting, value: object) -> None:
    try:
        kept = spec.check(value)
    except SettingFault:
        return
    assert kept == (float(value) if isinstance(value, int) and spec.kind is float else value)
    assert getattr(Config.from_mapping({spec.name: kept}), spec.name) == kept


@given(st.sampled_from(list(SETTINGS.values())), st.text(max_size=8))
def test_any_text_is_either_parsed_or_a_fault(spec: Setting, text: str) -> None:
    try:
        value = spec.parse(text)
    except SettingFault:
        return
    assert spec.check(value) == value


def test_members_of_enums_become_their_values() -> None:
    class Seed(enum.IntEnum):
        FIRST = 7

    class When(enum.StrEnum):
        EMIT = "emit"

    config = Config(seed=Seed.FIRST, message_timeout_secs=Seed.FIRST, timeout_from=When.EMIT)  # type: ignore[arg-type]
    kept = (config.seed, config.message_timeout_secs, config.timeout_from)
    assert kept == (7, 7.0, "emit")
    assert [type(value) for value in kept] == [int, float, str]
