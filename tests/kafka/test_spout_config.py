"""`KafkaSpoutConfig` and `KafkaSecurity` name all their faults at once, each with its fix, and show no password."""

import dataclasses
import re
import ssl
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaClient

from engine.errors import ConfigError
from engine.kafka import KafkaSecurity, KafkaSpoutConfig
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.source.spout_config import _REFUSED

WHOLE = {"brokers": "127.0.0.1:9092", "topics": "lines", "group": "words"}
SASL = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": "secret"}


def config(**values: Any) -> KafkaSpoutConfig:
    return KafkaSpoutConfig(**(WHOLE | values))


def faults(make: Any, **values: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        make(**values)
    return caught.value.faults


def test_brokers_topics_and_group_are_enough_and_normalized() -> None:
    made = config(brokers=" a:1 , b:65535 ", topics=["x", "y"], client={"metadata_max_age_ms": 5}, revoke_drain_ms=1)
    assert (made.brokers, made.topics) == (("a:1", "b:65535"), ("x", "y"))
    assert (config().brokers, config().topics) == (("127.0.0.1:9092",), ("lines",))
    assert config(brokers=["[::1]:9092"]).brokers == ("[::1]:9092",)
    assert isinstance(made.revoke_drain_ms, float)
    assert config(dead_letter_topic="dead", max_retries=3).on_give_up == "dead_letter"
    with pytest.raises(TypeError):
        made.client["x"] = 1  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.group = "other"  # type: ignore[misc]
    assert dataclasses.replace(made, group="other").brokers == made.brokers


@pytest.mark.parametrize(
    "values",
    [
        {"topics": (), "pattern": "lines-.*"},
        {"membership": "assign", "group": None},
        {"start": "timestamp", "start_timestamp_ms": 0},
        {"max_retries": 0, "on_give_up": "drop"},
        {"guarantee": "no_guarantee", "on_give_up": "drop"},
        {"heartbeat_interval_ms": 1000, "session_timeout_ms": 3000},
    ],
)
def test_valid_settings_are_accepted(values: dict[str, Any]) -> None:
    made = config(**values)
    assert {name: getattr(made, name) for name in values} == values


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"brokers": ""}, "broker '' is not 'host:port'. Write brokers='127.0.0.1:9092'."),
        ({"brokers": "a:1,,b:2"}, "broker '' is not 'host:port'. Write brokers='127.0.0.1:9092'."),
        *(
            ({"brokers": bad}, f"broker {bad!r} is not 'host:port'. Write brokers='127.0.0.1:9092'.")
            for bad in ("a", ":1", "a:0", "a:65536")
        ),
        *(
            ({"brokers": bad}, f"broker {bad!r} is not 'host:port'. Write brokers='127.0.0.1:9092'.")
            for bad in ("a:-1", "a:x", "a:²", "a:٣")
        ),
        *(({"brokers": bad}, f"brokers must be 'host:port' or several of them, not {bad!r}.") for bad in ((), 5, ["a:1", 2], {"a:1": 1})),
        *(({"topics": bad}, f"topics must be names, not {bad!r}.") for bad in (("a", ""), ("a", 5), (None,))),
        ({"topics": "x", "pattern": "y"}, "topics and pattern exclude each other."),
        ({"topics": ()}, "topics is missing. Write topics='lines', or pattern='lines-.*'."),
        ({"topics": (), "pattern": "("}, "pattern '(' is not a regular expression: missing ), unterminated subpattern at position 0."),
        ({"group": None}, "group is missing. Write group='word-count', or membership='assign' to read without a group."),
        ({"group": " "}, "group must be a non-empty string, or none, not ' '."),
        ({"membership": "assign", "group_instance_id": "one"}, "group_instance_id is for membership='group'."),
        ({"on_lost": "skip", "out_of_range": "fail"}, "on_lost='skip' and out_of_range='fail' exclude each other."),
        ({"security": None}, "security must be a KafkaSecurity(...), not of type NoneType."),
        ({"client": "x"}, "client must be a mapping of options of aiokafka's client, not 'x'."),
        ({"client": {1: 2}}, "client must be a mapping of options of aiokafka's client, not {1: 2}."),
        ({"translator": 5}, "translator must be a function of a record, not 5."),
        (
            {"translator": list.append},
            "translator <method 'append' of 'list' objects> cannot be called with one record. Write def translate(record): ...",
        ),
        ({"start": "timestamp"}, "start='timestamp' needs start_timestamp_ms."),
        ({"start_timestamp_ms": 5}, "start_timestamp_ms is for start='timestamp', not 'uncommitted_earliest'."),
        ({"guarantee": "exactly_once"}, "guarantee must be 'at_least_once', 'at_most_once' or 'no_guarantee', not 'exactly_once'."),
        ({"revoke_drain_ms": 60_000}, "revoke_drain_ms=60000 must be below rebalance_timeout_ms=60000."),
        ({"heartbeat_interval_ms": 15_001}, "heartbeat_interval_ms=15001 must be at most a third of session_timeout_ms=45000."),
        (
            {"max_retries": 3},
            "max_retries=3 needs dead_letter_topic='...' or on_give_up='drop', to handle records that are given up.",
        ),
        ({"max_retries": 3, "on_give_up": "dead_letter"}, "on_give_up='dead_letter' needs a dead_letter_topic."),
        ({"max_retries": 3, "on_give_up": "drop", "dead_letter_topic": "d"}, "on_give_up='drop' and dead_letter_topic exclude each other."),
        ({"dead_letter_topic": "d"}, "max_retries is missing. Without it no record is ever given up."),
        (
            {"dead_letter_topic": "lines", "max_retries": 1},
            "dead_letter_topic 'lines' is one of the topics, so its records would be read again forever.",
        ),
        ({"max_uncommitted_offsets": 0}, "max_uncommitted_offsets must be an integer from 1 to 2_147_483_647, not 0."),
        ({"retry_period_ms": 0}, "retry_period_ms must be a number above 0, not 0."),
        ({"max_metadata_bytes": 255}, "max_metadata_bytes must be an integer from 256 to 1_048_576, not 255."),
    ],
)
def test_each_fault_has_one_clear_text(values: dict[str, Any], fault: str) -> None:
    assert faults(config, **values) == (fault,)


@pytest.mark.parametrize(
    "broker", ["[::1", "[::1:9092", "::1]:9092", "[x]:9092", "\udcff:9092", "a\0b:9092", "..:9092", f"{'a' * 64}:9092", "a b:9092"]
)
def test_an_impossible_host_is_a_fault(broker: str) -> None:
    assert faults(config, brokers=[broker]) == (f"broker {broker!r} is not 'host:port'. Write brokers='127.0.0.1:9092'.",)


@pytest.mark.parametrize("topics", [5, None, 1.5])
def test_topics_that_are_not_names_are_a_fault(topics: Any) -> None:
    assert faults(config, topics=topics)[0] == f"topics must be names, not {topics!r}."


def test_wrong_fields_are_reported_with_a_fix() -> None:
    (fault,) = faults(config, fields=5)
    assert fault.startswith("fields: output_fields of stream 'default' must be Fields, not 5 (int). Write ")


@pytest.mark.guarantee("KS-2")
def test_automatic_commits_of_the_client_are_refused() -> None:
    (fault,) = faults(config, client={"enable_auto_commit": True})
    assert fault == (
        "client option 'enable_auto_commit' cannot be set. "
        "The spout itself commits, so that no acked record is lost (KS-2). Write guarantee=..."
    )
    assert len(faults(config, client={"enable_auto_commit": False, "auto_commit_interval_ms": 5})) == 2


@pytest.mark.parametrize("option", sorted(_REFUSED))
def test_a_client_option_that_the_spout_sets_is_refused_with_a_fix(option: str) -> None:
    (fault,) = faults(config, client={option: "x"})
    assert re.fullmatch(rf"client option '{option}' cannot be set\. [A-Z].+\.(?:\.\.)?", fault)


async def test_no_client_option_is_passed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def consumer(**options: Any) -> Any:
        given.update(options)
        return SimpleNamespace(_client=AIOKafkaClient())

    monkeypatch.setattr("engine.kafka.client.consumer_link.AIOKafkaConsumer", consumer)
    ConsumerLink(config(), "me", None, None, None)  # type: ignore[arg-type]
    assert set(given) <= set(_REFUSED)


def test_all_faults_are_reported_at_once_with_the_nearest_words() -> None:
    found = faults(KafkaSpoutConfig, gorup="words", burst=1, start="first", max_retries=-1)
    assert found[0] == "'gorup' is not a setting. Did you mean 'group'?"
    assert found[1].startswith("'burst' is not a setting. ")
    assert found[2] == "brokers is missing."
    assert found[3].startswith("start must be 'uncommitted_earliest', ")
    assert found[4] == "max_retries must be an integer of at least 0, or none, not -1."
    assert len(found) == 5
    assert len(faults(config, brokers="x", group=None, topics=(), start="timestamp", on_give_up="drop")) == 5


# Security


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (
            {"protocol": "SASL_SSL"},
            "protocol='SASL_SSL' needs a mechanism. Write mechanism='SCRAM-SHA-512', or another one of the brokers.",
        ),
        *(
            (values, "mechanism, username and password need SASL, and protocol='PLAINTEXT' has none. Write protocol='SASL_SSL'.")
            for values in ({"mechanism": "GSSAPI"}, {"username": "u"}, {"password": "secret"})
        ),
        *(
            (SASL | {"mechanism": mechanism, missing: None}, f"mechanism={mechanism!r} needs username and password.")
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
            for missing in ("username", "password")
        ),
        ({"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER"}, "mechanism='OAUTHBEARER' needs a token_provider."),
        ({"cafile": "ca.pem"}, "certificates need TLS, and protocol='PLAINTEXT' has none. Write protocol='SSL' or 'SASL_SSL'."),
        (
            {"protocol": "SASL_PLAINTEXT", "mechanism": "GSSAPI", "certfile": "c.pem"},
            "certificates need TLS, and protocol='SASL_PLAINTEXT' has none. Write protocol='SSL' or 'SASL_SSL'.",
        ),
        ({"protocol": "SSL", "keyfile": "k.pem"}, "keyfile needs a certfile, which is missing."),
        (
            {"protocol": "SSL", "ssl_context": ssl.create_default_context(), "cafile": "ca.pem"},
            "ssl_context and files of certificates exclude each other. Load the files into the context.",
        ),
        ({"protocol": "TLS"}, "protocol must be 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL', not 'TLS'."),
        ({"passwort": "secret"}, "'passwort' is not a setting. Did you mean 'password'?"),
    ],
)
def test_each_fault_of_security_has_one_clear_text(values: dict[str, Any], fault: str) -> None:
    assert faults(KafkaSecurity, **values) == (fault,)


def test_settings_reach_the_client() -> None:
    context = ssl.create_default_context()
    assert KafkaSecurity().client_options() == {"security_protocol": "PLAINTEXT"}
    assert KafkaSecurity(**SASL, ssl_context=context).client_options() == {
        "security_protocol": "SASL_SSL",
        "ssl_context": context,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "secret",
    }
    provider = object()
    options = KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token_provider=provider).client_options()
    assert options == {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}
    made = KafkaSecurity(protocol="SSL", check_hostname=False).client_options()["ssl_context"]
    assert (made.check_hostname, made.verify_mode) == (False, ssl.CERT_REQUIRED)
    with pytest.raises(OSError, match="No such file"):
        KafkaSecurity(protocol="SSL", cafile="/nowhere/ca.pem").client_options()


def test_no_password_is_ever_shown() -> None:
    security = KafkaSecurity(**SASL, certfile="c.pem", keyfile="k.pem", key_password="secret", token_provider="secret")
    whole = config(security=security)
    texts = [repr(security), str(security), repr(whole), str(whole), f"{whole}"]
    for make, values in (
        (config, {"security": SASL}),
        (config, {"security": security, "group": None}),
        (config, {"client": {"sasl_plain_password": "secret"}}),
        (KafkaSecurity, {"password": "secret", "key_password": "secret", "keyfile": "k"}),
    ):
        with pytest.raises(ConfigError) as caught:
            make(**values)  # type: ignore[operator]
        texts += [str(caught.value), repr(caught.value)]
    assert not [text for text in texts if "secret" in text]
