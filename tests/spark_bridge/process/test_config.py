"""`SparkConfig` is validated when it is created, and equal ones are one key (SP-5)."""

import pytest

from engine.errors import ConfigError
from spark_bridge.process import SparkConfig

pytestmark = pytest.mark.guarantee("SP-5")


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        ("local", "local"),
        ("local[*]", "local"),
        ("local[2,3]", "local"),
        ("local-cluster[2, 1, 1024]", "local-cluster"),
        ("spark://a:7077,b:7077", "standalone"),
        ("yarn", "yarn"),
        ("k8s://https://host:443", "kubernetes"),
        ("sc://host", "connect"),
        ("sc://host:15002/;token=x", "connect"),
    ],
)
def test_the_kind_is_derived_from_the_master(master: str, kind: str) -> None:
    assert SparkConfig(master=master).kind == kind


def test_local_is_the_default() -> None:
    assert SparkConfig().master == "local[*]"


def test_equal_configurations_are_one_key() -> None:
    one = SparkConfig(conf={"spark.b": 2, "spark.a": True}, jars=["x.jar"])  # type: ignore[arg-type]
    other = SparkConfig(conf=(("spark.a", "true"), ("spark.b", "2")), jars=("x.jar",))
    assert {one: 1} == {other: 1}
    assert SparkConfig(conf={"spark.b": 3}) != one


def test_all_faults_at_once_each_with_its_fix() -> None:
    with pytest.raises(ConfigError) as raised:
        SparkConfig(
            master="spark:/host",
            driver_memory="512",
            conf={"shuffle": 2, "spark.master": "yarn", "spark.x": None},  # type: ignore[dict-item]
            jars="a.jar",  # type: ignore[arg-type]
            start_timeout_secs=0,
        )
    text = str(raised.value)
    assert len(raised.value.faults) == 7
    for part in ("master is 'spark:/host'", "'512m'", "'shuffle'", "Set master=", "'spark.x'", "jars is 'a.jar'", "start_timeout_secs"):
        assert part in text


def test_memory_belongs_to_the_server_of_connect() -> None:
    with pytest.raises(ConfigError, match="the server has the memory"):
        SparkConfig(master="sc://host:15002", driver_memory="2g")


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://far:7077", False),
        ("spark://127.0.0.1:7077,far:7077", False),
        ("sc://localhost:15002/;use_ssl=true", True),
        ("sc://far:15002", False),
        ("yarn", False),
    ],
)
def test_executors_on_this_machine_reach_its_files(master: str, here: bool) -> None:
    assert SparkConfig(master=master).is_on_this_machine is here
