"""Looks at the executors before the first batch: whether they can run the topology (CL-4)."""

import asyncio
import os
import pickle
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from engine.errors import FatalError
from engine.version import __version__
from spark_bridge.process import pickling
from spark_bridge.process.spark_child import SparkHold
from spark_bridge.topology.call_watch import CallWatch
from spark_bridge.topology.frozen_watch import watched_workers
from spark_bridge.topology.program import NO_INSTANCES, Program
from spark_bridge.topology.start_watch import watched_start

PROBE_FOLDER: Final = "probe"
MOST_TASKS: Final = 256
PACKAGE: Final = "python -m spark_bridge package --engine env.tar.gz"
_ENGINE_FILE: Final = "engine"
_PLACES: Final = 5
"""Executors that a fault names."""
_GIVE_ENGINE: Final = f"Write an archive of this environment by `{PACKAGE}`, and pass it by --archives env.tar.gz#environment"
_GIVE_PYTHON: Final = "Install that version on the executors, and name it by python= of SparkConfig"
_GIVE_SPARK: Final = "Install the pyspark here that has the version of the cluster (spark-submit --version tells it there)"
_GIVE_FOLDER: Final = "Give a --spool folder that this machine and all executors reach under the same path, and may write"
_MISMATCH: Final = re.compile(r"Python in worker has different version: (\S+) than that in driver: ([\d.]+)")
_NO_PYTHON: Final = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_SPARK: Final = re.compile(
    r"java\.io\.InvalidClassException: (?:org\.apache\.spark|scala)\."
    r"|java\.lang\.(?:NoSuch|NoClassDef|Abstract|IncompatibleClass)\w*Error: .{0,99}org[./]apache[./]spark[./]"
    r"|java\.lang\.ClassCastException: cannot assign instance of \S+ to field org\.apache\.spark\."
)
"""A class of the driver's Spark that an executor cannot load, or a method that its Spark lacks."""
_LOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor \S+\)")


class ExecutorsRefused(FatalError):
    """The executors of Spark cannot run the topology. The message has all reasons."""

    exit_status = 2


@dataclass(frozen=True, slots=True)
class Probe:
    """The question to the executors."""

    program_path: str
    """File of the pickled program, on the machine of the engine and of the driver."""
    folder: str | None
    """Folder that executors must be able to read and write. None: they need none."""
    token: str
    """Content of the files in this folder. Differs in each run."""


class Finding(NamedTuple):
    """One answer of an executor."""

    host: str
    kind: str
    """`python`, `spark`, `engine`, `program`, `folder`, or `wrote` with the name of a file."""
    text: str


Look: TypeAlias = Callable[[int, Iterable[Any]], Iterator[tuple[str, str, str]]]


async def check_executors(
    spark: SparkHold, program: Program, root: str, watch: CallWatch, *, shared: bool, timeout: float | None = None
) -> None:
    """Raise ExecutorsRefused with all reasons why the executors cannot run the program, whose bytes are in the folder `root`.

    shared: executors read and write files in `root`. Raises other errors of Spark if it is not available at the moment.
    """
    probe = Probe(os.path.join(root, "program"), os.path.join(root, PROBE_FOLDER) if shared else None, os.path.basename(root))
    findings: list[Finding] = await spark.call(probe_executors, probe, watch.limit_secs, on_event=watch.on_event, timeout=timeout)
    if any(finding.kind == "program" for finding in findings):
        path = os.path.join(root, "parts")
        await asyncio.to_thread(_write_parts, program, path)
        parts: list[Finding] = await spark.call(probe_parts, path, watch.limit_secs, on_event=watch.on_event, timeout=timeout)
        findings = [each for each in findings if each.kind != "program" or not parts] + parts
    faults = await asyncio.to_thread(faults_of, findings, probe)
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "1 fault"
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise ExecutorsRefused(f"the executors of Spark cannot run topology {program.described.name!r}, {count}:{listed}")


def _write_parts(program: Program, path: str) -> None:
    """Write the parts of a program that may need modules of the user, with the component of each."""
    parts = []
    if program.executors_emit:
        parts.append((program.described.spouts[0].where, pickling.dumps(program.spout)))
    for spec in program.described.components.values():
        if spec.factory is not NO_INSTANCES:
            parts.append((spec.where, pickling.dumps((spec.factory, spec.subscriptions))))
    with open(path, "wb") as file:
        pickle.dump(parts, file)


# In Spark's process


def probe_executors(spark: Any, call: Any, probe: Probe, limit_secs: float) -> list[Finding]:
    """Return the answers of the executors. Runs one small job."""
    with open(probe.program_path, "rb") as file:
        pickled = file.read()
    if probe.folder is not None:
        _write_token(probe.folder, probe.token)
    try:
        context = spark.sparkContext
        with watched_start(context, call), watched_workers(context, call, limit_secs):
            return _ask(context, look_at(platform.python_version(), __version__, pickled, probe.folder, probe.token))
    except Exception as error:
        finding = finding_of_failure(str(error), spark.version)
        if finding is None:
            raise
        return [finding]


def probe_parts(spark: Any, call: Any, path: str, limit_secs: float) -> list[Finding]:
    """Return the parts of a program that executors cannot load."""
    context = spark.sparkContext
    with open(path, "rb") as file, watched_workers(context, call, limit_secs):
        return _ask(context, load_each(pickle.load(file)))


def _ask(context: Any, look: Look) -> list[Finding]:
    """Return the answers of the executors. There are more tasks than cores, so that each executor gets some."""
    tasks = min(2 * int(context.defaultParallelism), MOST_TASKS)
    answers = context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(look).collect()
    return [Finding(*answer) for answer in dict.fromkeys(answers)]


def _write_token(folder: str, token: str) -> None:
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o777)  # executors may run as another user
    with open(os.path.join(folder, _ENGINE_FILE), "w") as file:
        file.write(token)


def finding_of_failure(text: str, spark_version: str) -> Finding | None:
    """Return the finding of a failed job whose tasks could not begin on the executors. None for any other failure.

    spark_version: version of the driver.
    """
    mismatch, missing, lost = _MISMATCH.search(text), _NO_PYTHON.search(text), _LOST.search(text)
    where = lost[1] if lost else "of the job"
    if mismatch:
        return Finding(where, "python", f"has Python {mismatch[1]}, and the engine runs on {mismatch[2].rstrip('.')}")
    if _OTHER_SPARK.search(text):
        return Finding(where, "spark", f"has another version of Spark than the driver, which has {spark_version}")
    return Finding(where, "python", f"cannot start the Python {missing[1]}") if missing else None


# On executors. These functions are pickled by value, because they are local, and import nothing of this package before they have looked.


def look_at(python: str, engine: str, pickled: bytes, folder: str | None, token: str) -> Look:
    """Return the function that looks at an executor."""

    def look(number: int, nothing: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
        import importlib
        import os
        import platform
        import socket

        host, version = socket.gethostname(), platform.python_version()
        if version.split(".")[:2] != python.split(".")[:2]:
            yield host, "python", f"has Python {version}, and the engine runs on {python}"
        try:
            found = importlib.import_module("engine.version").__version__
            importlib.import_module("spark_bridge.topology.job")
            if found != engine:
                yield host, "engine", f"has version {found} of the engine, and {engine} runs here"
        except Exception as error:  # noqa: BLE001 - it becomes a fault
            yield host, "engine", f"cannot import the engine: {type(error).__name__}: {error}"
        else:
            try:
                importlib.import_module("spark_bridge.topology.loaded_program").load_program(pickled)
            except Exception as error:  # noqa: BLE001 - it becomes a fault
                yield host, "program", f"cannot load the topology: {type(error).__name__}: {error}"
        if folder is not None:
            name = f"{host}-{os.getpid()}-{number}"
            try:
                with open(os.path.join(folder, "engine")) as file:
                    if file.read() != token:
                        raise OSError("it has other files than on the machine of the engine")
                with open(os.path.join(folder, name), "w") as file:
                    file.write(token)
                yield host, "wrote", name
            except OSError as error:
                yield host, "folder", f"cannot use the spool folder {os.path.dirname(folder)}: {error.strerror or error}"

    return look


def load_each(parts: list[tuple[str, bytes]]) -> Look:
    """Return the function that loads each part of a program on an executor."""

    def look(number: int, nothing: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
        import importlib
        import socket

        for where, pickled in parts:
            try:
                importlib.import_module("spark_bridge.process.pickling").loads(pickled)
            except Exception as error:  # noqa: BLE001 - it becomes a fault
                yield socket.gethostname(), "program", f"cannot load {where}: {type(error).__name__}: {error}"

    return look


# Faults


def faults_of(findings: list[Finding], probe: Probe) -> list[str]:
    """Return one fault for each reason, with the executors that gave it."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for host, kind, text in findings:
        if kind == "wrote":
            if probe.folder is None or _has_token(os.path.join(probe.folder, text), probe.token):
                continue
            kind, text = "folder", "has written a file into the spool folder, and the engine does not see it"
        hosts.setdefault((kind, text), []).append(host)
    return [f"{_places(where)}: {text}. {_fix(kind, text)}." for (kind, text), where in hosts.items()]


def _has_token(path: str, token: str) -> bool:
    try:
        with open(path) as file:
            return file.read() == token
    except OSError:
        return False


def _places(hosts: list[str]) -> str:
    named = sorted(set(hosts))
    more = f" and {len(named) - _PLACES} more" if len(named) > _PLACES else ""
    return f"executor{'s' * (len(named) > 1)} {', '.join(named[:_PLACES])}{more}"


def _fix(kind: str, text: str) -> str:
    fix = {"python": _GIVE_PYTHON, "spark": _GIVE_SPARK, "engine": _GIVE_ENGINE, "folder": _GIVE_FOLDER}.get(kind)
    if fix is not None:
        return fix
    missing = re.search(r"No module named '(\w+)", text)
    if missing:
        return f"Install {missing[1]!r} there, pass its file by --py-files {missing[1]}.py, or pack its extra: `{PACKAGE} --extra NAME`"
    return "Give the executors the modules of this environment"
