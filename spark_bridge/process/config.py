"""Configuration of Spark, a frozen and hashable value that is validated when it is created."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from urllib.parse import urlsplit

from engine.errors import ConfigError
from engine.plain_numbers import plain_number

Pairs = tuple[tuple[str, str], ...]

_LOCAL: Final = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_STANDALONE: Final = re.compile(r"spark://[^\s,/:]+:\d+(,[^\s,/:]+:\d+)*")
_CONNECT: Final = re.compile(r"sc://[^\s/;]+(/\S*)?")
_KUBERNETES: Final = re.compile(r"k8s://\S+")
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_FIELD_OF_SETTING: Final = {
    "spark.master": "master",
    "spark.remote": "master",
    "spark.app.name": "app_name",
    "spark.driver.memory": "driver_memory",
    "spark.executor.memory": "executor_memory",
    "spark.jars": "jars",
    "spark.submit.pyFiles": "py_files",
    "spark.archives": "archives",
    "spark.pyspark.python": "python",
}


@dataclass(frozen=True)
class SparkConfig:
    """Configures a Spark session. Equal configurations share a process (`SharedSpark`). Raises ConfigError with all faults.

    >>> SparkConfig(master="local[2]", driver_memory="512m", conf={"spark.sql.shuffle.partitions": 2}).kind
    'local'
    """

    master: str = "local[*]"
    """`local[n]`, `local-cluster[workers,cores,megabytes]`, `spark://host:port`, `yarn`, `k8s://…`, or `sc://host:port` (Spark Connect)."""
    app_name: str = "stormcell"
    driver_memory: str | None = None
    """Memory of the driver, such as `2g`. The default is `1g`. Not for `sc://`, because the server has its own driver."""
    executor_memory: str | None = None
    conf: Mapping[str, str | int | float | bool] | Pairs = ()
    """Further settings of Spark by name. The settings override the defaults of this class. Stored as sorted pairs."""
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    """Python modules and zips that the executors need."""
    archives: tuple[str, ...] = ()
    """Archives that executors unpack and import from, such as `env.tar.gz#environment` (`python -m spark_bridge package --engine`)."""
    python: str | None = None
    """Python of the executors. Default: this Python. On YARN and Kubernetes, the Python of the cluster."""
    log_file: str | None = None
    """File to which Spark's output is appended. By default a file in the folder for temporary files."""
    start_timeout_secs: float = 180.0
    stop_timeout_secs: float = 15.0

    def __post_init__(self) -> None:
        faults: list[str] = []
        for name in ("jars", "py_files", "archives"):
            object.__setattr__(self, name, _paths(name, getattr(self, name), faults))
        object.__setattr__(self, "conf", _pairs(self.conf, faults))
        for name in ("start_timeout_secs", "stop_timeout_secs"):
            object.__setattr__(self, name, _positive_secs(name, getattr(self, name), faults))
        faults += _field_faults(self)
        if faults:
            raise ConfigError(faults, headline="SparkConfig")

    @property
    def kind(self) -> str:
        """`local`, `local-cluster`, `standalone`, `yarn`, `kubernetes` or `connect`."""
        return _kind_of_master(self.master) or "unknown"

    @property
    def is_on_this_machine(self) -> bool:
        """True if executors run on this machine and can read its files. A master on a loopback address counts."""
        if self.kind in ("standalone", "connect"):
            return all(urlsplit(f"//{place}").hostname in _LOOPBACK for place in re.sub(r"^\w+://", "", self.master).split(","))
        return self.kind in ("local", "local-cluster")

    def as_plain(self) -> dict[str, Any]:
        """Return the settings by name, for the child, which cannot import this class."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "kind": self.kind,
            "is_on_this_machine": self.is_on_this_machine,
        }


def _kind_of_master(master: object) -> str | None:
    if not isinstance(master, str):
        return None
    kinds = (
        ("local", _LOCAL),
        ("local-cluster", _LOCAL_CLUSTER),
        ("standalone", _STANDALONE),
        ("connect", _CONNECT),
        ("kubernetes", _KUBERNETES),
    )
    return "yarn" if master == "yarn" else next((kind for kind, form in kinds if form.fullmatch(master)), None)


def _paths(name: str, value: object, faults: list[str]) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        faults.append(f"{name} is {value!r}. Give a list of paths.")
        return ()
    texts = tuple(os.fspath(each) if isinstance(each, os.PathLike) else each for each in value)
    faults.extend(f"{name} has {each!r}. Give paths." for each in texts if not isinstance(each, str) or not each)
    return texts


def _positive_secs(name: str, value: object, faults: list[str]) -> float:
    secs = plain_number(value)
    if secs is not None and secs > 0:
        return secs
    faults.append(f"{name} is {value!r}. Give seconds above 0.")
    return 1.0


def _pairs(conf: Any, faults: list[str]) -> Pairs:
    if not isinstance(conf, (Mapping, tuple)):
        faults.append(f"conf is {conf!r}. Give a mapping, such as {{'spark.sql.shuffle.partitions': 8}}.")
        return ()
    settings: dict[Any, Any] = dict(conf)
    for name, value in settings.items():
        if not isinstance(name, str) or not name.startswith("spark."):
            faults.append(f"conf has {name!r}. The names of Spark's settings begin with 'spark.'.")
        elif name in _FIELD_OF_SETTING:
            faults.append(f"conf has {name!r}. Set {_FIELD_OF_SETTING[name]}= instead.")
        elif not isinstance(value, (str, bool)) and plain_number(value) is None:
            faults.append(f"conf has {name!r}: {value!r}. Give a string, a number, True or False.")
    return tuple(sorted((str(name), _setting_text(value)) for name, value in settings.items()))


def _setting_text(value: object) -> str:
    """Return a setting of Spark as text: `true`, `8`."""
    if isinstance(value, bool):
        return str(value).lower()
    number = plain_number(value)
    return str(value if number is None else number)


def _field_faults(config: SparkConfig) -> Iterator[str]:
    if config.kind == "unknown":
        yield (
            f"master is {config.master!r}. Give 'local[2]', 'local-cluster[2,1,1024]', 'spark://host:7077', 'yarn', "
            "'k8s://https://host:443' or 'sc://host:15002'."
        )
    if config.archives and config.kind == "connect":
        yield f"archives is {config.archives!r}, but with {config.master!r} the server has the executors. Configure the server."
    app_name: object = config.app_name
    if not isinstance(app_name, str) or not app_name.strip():
        yield f"app_name is {app_name!r}. Give a string that is not blank."
    for name in ("driver_memory", "executor_memory"):
        memory: object = getattr(config, name)
        if memory is not None and not (isinstance(memory, str) and _MEMORY.fullmatch(memory)):
            yield f"{name} is {memory!r}. Give a number with a unit, such as '512m' or '2g'."
        elif memory is not None and config.kind == "connect":
            yield f"{name} is {memory!r}, but with {config.master!r} the server has the memory. Leave it out, and configure the server."
    for name in ("python", "log_file"):
        text: object = getattr(config, name)
        if text is not None and not (isinstance(text, str) and text):
            yield f"{name} is {text!r}. Give a path, or None."
