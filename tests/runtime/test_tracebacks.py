"""Tracebacks show frames of user code. Frames of libraries and the engine are folded (SV-5)."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine import BasicBolt, Config, Fields, Tuple
from engine.runtime.error_report import user_traceback
from tests.runtime.stage import Numbers, chain, play_run

pytestmark = pytest.mark.guarantee("SV-5")


def installed(folder: Path, name: str, text: str) -> ModuleType:
    """Import a module from a folder like that of an installed package."""
    package = folder / "site-packages" / name
    package.mkdir(parents=True)
    file = package / "__init__.py"
    file.write_text(text, encoding="utf-8")
    module = ModuleType(name)
    exec(compile(text, str(file), "exec"), vars(module))
    return module


def raised_by(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def test_frames_of_the_standard_library_are_folded_into_a_line() -> None:
    def users() -> None:
        json.loads("{")

    text = user_traceback(raised_by(users))
    assert "in users" in text
    assert "json/decoder.py" not in text
    assert text.endswith("frames of the standard library\n")
    assert "json/decoder.py" in user_traceback(raised_by(users), full=True)


def test_frames_of_a_library_between_the_users_are_folded_and_named(tmp_path: Path) -> None:
    library = installed(tmp_path, "courier", "def deliver(call):\n    return hand_over(call)\ndef hand_over(call):\n    return call()\n")

    def breaks() -> None:
        raise ValueError("inside")

    def users() -> None:
        library.deliver(breaks)

    lines = user_traceback(raised_by(users)).splitlines()
    assert [line for line in lines if line.startswith("  ...")] == ["  ... 2 frames of courier"]
    assert "in users" in "".join(lines)
    assert "in breaks" in lines[-2]


def test_installed_user_code_is_shown_too(tmp_path: Path) -> None:
    text = "class Charge:\n    def execute(self, tup):\n        return self.charge()\n    def charge(self):\n        1 / 0\n"
    module = installed(tmp_path, "shop", text)
    Shop: Any = type("Shop", (module.Charge, BasicBolt), {})
    run = play_run(chain(lambda: Numbers(1), Shop))
    (report,) = run.snapshot().errors
    assert "in execute" in report.traceback
    assert "in charge" in report.traceback
    assert "..." not in report.traceback


def test_without_a_frame_of_user_code_the_raising_frame_is_shown() -> None:
    error = raised_by(lambda: json.loads("{"))
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_next is not None
    error.__traceback__ = error.__traceback__.tb_next.tb_next  # from json.loads on: as of a component that is a library's function
    text = user_traceback(error)
    assert text.count("File") == 1
    assert "in raw_decode" in text
    assert "frames of the standard library" in text


def test_full_traceback_shows_every_frame(tmp_path: Path) -> None:
    class Parses(BasicBolt):
        output_fields = Fields("value")

        def execute(self, tup: Tuple) -> None:
            json.loads("{")

    folded = play_run(chain(lambda: Numbers(1), Parses)).snapshot().errors[0].traceback
    whole = play_run(chain(lambda: Numbers(1), Parses), Config(full_traceback=True)).snapshot().errors[0].traceback
    assert folded.count("File") == 1
    assert "json" in folded
    assert whole.count("json/decoder.py") > 0
    assert "bolt_executor.py" in whole


def test_causes_are_folded_too() -> None:
    def users() -> None:
        try:
            json.loads("{")
        except ValueError as error:
            raise RuntimeError("no order") from error

    text = user_traceback(raised_by(users))
    assert "the cause of:" in text
    assert "JSONDecodeError" in text
    assert "decoder.py" not in text


def test_frames_of_the_engine_below_user_code_are_folded() -> None:
    class TooFewValues(BasicBolt):
        output_fields = Fields("number", "length")

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup["number"],))

    run = play_run(chain(lambda: Numbers(1), TooFewValues))
    (report,) = run.snapshot().errors
    assert 'self.collector.emit((tup["number"],))' in report.traceback
    assert "_native" not in report.traceback
    assert "engine/runtime" not in report.traceback
