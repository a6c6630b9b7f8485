"""Definition of a pipeline by a decorator or by the number of arguments, and errors for anything else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from spark_bridge.pipeline import per_batch, pipeline
from spark_bridge.pipeline.definition import check_readable, definition_of, load_pipeline
from spark_bridge.pipeline.errors import PipelineFileError

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a pipeline file and returns its path."""

    def written(text: str) -> str:
        (tmp_path / "flow.py").write_text(text)
        return str(tmp_path / "flow.py")

    return written


def test_one_argument_is_a_stream_and_two_are_a_batch() -> None:
    def traffic(stream: Any, every: str = "1 minute") -> Any: ...
    def store(batch: Any, txid: int) -> None: ...

    assert (definition_of(traffic, "here").kind, definition_of(traffic, "here").name) == ("stream", "traffic")
    assert (definition_of(store, "here").kind, definition_of(store, "here").name) == ("batches", "store")


def test_decorators_select_the_kind_and_may_name_the_query() -> None:
    @pipeline(name="per-minute")
    def traffic(stream: Any) -> Any: ...
    @per_batch
    def store(batch: Any, txid: int) -> None: ...

    assert definition_of(traffic, "here").name == "per-minute"
    assert definition_of(store, "here").kind == "batches"
    with pytest.raises(UsageError, match="Put it above a function"):
        pipeline(7)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (lambda: None, r"takes 0 arguments\nFix: A pipeline takes `pipeline\(stream\)`"),
        (lambda a, b, c: None, r"takes 3 arguments \(a, b, c\)"),
        (per_batch(lambda batch: None), r"takes 1 argument \(batch\)\nFix: A pipeline takes two"),
        (per_batch(lambda batch, *, txid: None), r"here needs the argument 'txid' by name\nFix: Give it a default value"),
        (7, "of type int, not a function"),
        (Path, "the class Path, not a function"),
    ],
)
def test_the_error_of_a_wrong_definition_says_what_is_accepted(value: object, fault: str) -> None:
    with pytest.raises(PipelineFileError, match=fault):
        definition_of(value, "here")


def test_async_functions_are_refused() -> None:
    async def flow(stream: Any) -> None: ...

    with pytest.raises(PipelineFileError, match="async or a generator"):
        definition_of(flow, "here")


def test_a_file_is_searched_for_decorators_then_for_the_name(write: Write) -> None:
    named, _ = load_pipeline(write("def helper(a, b): ...\ndef pipeline(batch, txid): ...\n"))
    assert (named.name, named.kind) == ("pipeline", "batches")
    text = "from spark_bridge.pipeline import pipeline, per_batch\ndef helper(a): ...\n@per_batch\ndef store(batch, txid): ...\n"
    assert load_pipeline(write(text))[0].name == "store"
    assert load_pipeline(write(text) + ":helper")[0].name == "helper"


@pytest.mark.parametrize(
    ("text", "name", "fault"),
    [
        ("x = 1", "", "has no pipeline.*Put @pipeline above"),
        ("def pipelin(stream): ...", "", r"pipelin\(\) would count with a decorator"),
        ("def pipeline(stream): ...", ":pipline", r"no function 'pipline'\nFix: Did you mean .*flow.py:pipeline"),
        ("def pipeline(:", "", r"line 1, is not valid Python"),
        ("import nowhere_to_be_found", "", "Install 'nowhere_to_be_found'"),
        ("1 / 0", "", r"raised ZeroDivisionError while it was imported"),
        ("from spark_bridge.pipeline import pipeline\n@pipeline\ndef a(s): ...\n@pipeline\ndef b(s): ...", "", "has 2 pipelines"),
    ],
)
def test_a_file_without_a_pipeline_is_refused_with_the_reason(write: Write, text: str, name: str, fault: str) -> None:
    with pytest.raises(PipelineFileError, match=f"(?s){fault}") as raised:
        load_pipeline(write(text) + name)
    assert raised.value.exit_status == 2


def test_a_file_is_validated_before_spark_is_started(write: Write, tmp_path: Path) -> None:
    check_readable(write("raise RuntimeError('not run')"))
    with pytest.raises(PipelineFileError, match="does not exist"):
        check_readable(str(tmp_path / "nowhere.py"))
