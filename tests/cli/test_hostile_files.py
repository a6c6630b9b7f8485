"""Files whose code raises at every call of the engine.

The user reads one error with the component and the line of the file, never a traceback.
"""

import signal
from pathlib import Path

import pytest

from engine.cli.main import run_command_line
from tests.cli.hostile_files import ENDED, HEAD, REFUSED

pytestmark = [pytest.mark.guarantee("RUN-4"), pytest.mark.usefixtures("write")]
ERRORS = {
    "ValueError": "ValueError('boom')",
    "no text": "Mute()",
    "SystemExit": "SystemExit(3)",
    "own": "Odd()",
    "GeneratorExit": "GeneratorExit()",
    "CancelledError": "asyncio.CancelledError()",
}
NO_EXCEPTIONS = ("SystemExit", "own", "GeneratorExit")

CALLS = ("next_tuple", "execute", "one of several calls", "a call in a thread", "background work", "init_state", "pre_prepare", "key_of")
ORDINARY = [(what, "GeneratorExit") for what in CALLS]
"""A call that raises it fails like one that raises an Exception."""


class Player:
    """Runs commands on one file of a folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = folder / "flow.py"
        self._capsys = capsys

    def play(self, command: str, text: str, error: str, *arguments: str) -> tuple[int, str]:
        """Return the exit status and the standard error."""
        self._path.write_text(HEAD.replace("ERROR", error) + text, encoding="utf-8")
        status = run_command_line([command, str(self._path), *arguments])
        return status, self._capsys.readouterr().err

    @property
    def line(self) -> str:
        """Return the line of the file that raises."""
        number = HEAD[: HEAD.index("raise ERROR")].count("\n") + 1
        return f"{self._path}:{number}"


@pytest.fixture
def player(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Player:
    return Player(tmp_path, capsys)


def _is_clean(errors: str) -> bool:
    return "/engine/" not in errors and f"\n{errors}".count("\nError: ") == 1


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("what", REFUSED)
def test_check_names_the_code_that_raises(what: str, error: str, player: Player) -> None:
    status, errors = player.play("check", REFUSED[what], ERRORS[error])
    assert status == 2
    assert "'broken'" in errors or "spout 'lines'" in errors or "bolt 'sums'" in errors
    assert player.line in errors
    assert _is_clean(errors)


@pytest.mark.parametrize("error", ["ValueError", "SystemExit", "own"])
@pytest.mark.parametrize("what", REFUSED)
def test_run_ends_with_an_error_for_each_file_that_check_refuses(what: str, error: str, player: Player) -> None:
    status, errors = player.play("run", REFUSED[what], ERRORS[error], "--plain", "--log-level", "critical")
    assert status in (1, 2)
    assert player.line in errors or f"{player.line.replace(':', chr(34) + ', line ')}, in fails" in errors
    assert "Traceback" not in errors


@pytest.mark.guarantee("ACK-12")
@pytest.mark.parametrize(("what", "error"), [(what, error) for what in ENDED for error in NO_EXCEPTIONS if (what, error) not in ORDINARY])
def test_a_base_exception_ends_the_run_and_not_the_program(what: str, error: str, player: Player) -> None:
    assert player.play("check", ENDED[what], ERRORS[error])[0] == 0
    status, errors = player.play("run", ENDED[what], ERRORS[error], "--plain", "--log-level", "critical", "-c", "max_task_restarts=1")
    assert status == 1
    assert "'broken" in errors or "'lines'" in errors
    assert player.line in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("what", ["execute", "prepare", "next_tuple"])
def test_a_keyboard_interrupt_without_a_signal_is_an_error_of_the_component(what: str, player: Player) -> None:
    status, errors = player.play("run", ENDED[what], "KeyboardInterrupt()", "--plain")
    assert status == 1
    assert f"Error: user code raised KeyboardInterrupt ({player.line}" in errors
    assert "(task " in errors


def test_a_keyboard_interrupt_by_a_signal_interrupts(player: Player) -> None:
    import signal as module

    before = module.getsignal(signal.SIGINT)
    text = ENDED["prepare"].replace("fails()", "import signal; signal.raise_signal(signal.SIGINT); signal.raise_signal(signal.SIGINT)")
    assert player.play("run", text, "Odd()", "--plain")[0] == 130
    assert module.getsignal(signal.SIGINT) is before


@pytest.mark.guarantee("CP-8")
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_state_provider_that_cannot_be_created_is_an_error(command: str, error: str, player: Player) -> None:
    text = "\nsys.modules['hostile_provider'] = sys.modules[__name__]\ntopology = wire(Keeps).build()\n"
    status, errors = player.play(command, text, ERRORS[error], "-c", "state_provider=hostile_provider:fails")
    assert status == 2
    assert "state_provider='hostile_provider:fails': creating the provider raised" in errors
    assert player.line in errors
    assert _is_clean(errors)


@pytest.mark.guarantee("CP-8")
@pytest.mark.parametrize("command", ["check", "run"])
def test_an_unknown_state_provider_is_an_error(command: str, player: Player) -> None:
    status, errors = player.play(command, "\ntopology = wire(Keeps).build()\n", "Odd()", "-c", "state_provider=sqlit:///x.db")
    assert status == 2
    assert "there is no such state provider" in errors
    assert player.play("check", "\ntopology = wire(sink).build()\n", "Odd()", "-c", "state_provider=sqlit:///x.db")[0] == 0


def test_check_finds_a_factory_that_returns_the_same_instance_twice(player: Player) -> None:
    text = "\none = Sink()\nbuilder = wire(sink)\nbuilder.set_bolt('same', lambda: one, parallelism=2).shuffle_grouping('lines')\n"
    status, errors = player.play("check", text, "Odd()")
    assert status == 2
    assert "bolt 'same': its factory returned the same Sink twice" in errors


def test_values_of_a_file_may_raise_when_they_are_inspected(player: Player) -> None:
    text = """
class Annotation:
    def __str__(self):
        fails()

def helper() -> None: ...

helper.__annotations__["return"] = Annotation()
"""
    status, errors = player.play("graph", text, "Odd('hidden')")
    assert status == 2
    assert "raised Odd during the search for its topology" in errors
    assert "engine/cli" not in errors


LOOKED_AT = {
    "a config": """
from collections.abc import Mapping

class Config(Mapping):
    def __getitem__(self, key): fails()
    def __iter__(self): fails()
    def __len__(self): return 1

config = Config()
topology = wire(sink).build()
""",
    "a value of it": """
class Value:
    def __repr__(self): fails()

config = {"burst": Value()}
topology = wire(sink).build()
""",
    "a property of a topology": """
from engine import Topology

class Mine(Topology):
    @property
    def spouts(self): fails()

built = wire(sink).build()
topology = Mine(built.name, built.components)
del built
""",
}


@pytest.mark.parametrize("error", ["ValueError('boom')", "OSError(2, 'boom')"])
@pytest.mark.parametrize("what", LOOKED_AT)
def test_an_error_outside_of_components_shows_the_users_line(what: str, error: str, player: Player) -> None:
    status, errors = player.play("check", LOOKED_AT[what], error)
    assert status == 2
    assert "Error: user code raised" in errors
    assert player.line in errors
    assert _is_clean(errors)


@pytest.mark.parametrize("made", ["Topology('words', None)", "Topology(7, {})", "Topology('words', {'count': sink})"])
def test_a_topology_that_was_not_made_by_a_builder_is_refused(made: str, player: Player) -> None:
    status, errors = player.play("graph", f"\nfrom engine import Topology\ntopology = {made}\n", "Odd()")
    assert status == 2
    assert "flow.py:topology is a Topology that was not made by a builder" in errors


def test_a_module_with_a_raising_getattr_is_not_asked(player: Player) -> None:
    text = "\ntopology = wire(sink).build()\n\ndef __getattr__(name):\n    fails()\n"
    assert player.play("check", text, "Odd()") == (0, "")


UNCALLABLE = {
    "an emitter": (
        """
class Hostile(Emits):
    def emit_batch(self, attempt, metadata): pass

class Odd(Batches):
    def emitter(self): return Hostile()

topology = batches(Odd())
""",
        "Hostile.emit_batch(self, attempt, metadata) is called with (attempt, metadata, collector)",
    ),
    "a coordinator": (
        """
class Hostile(Numbers):
    def is_ready(self, txid): return True

class Odd(Batches):
    def coordinator(self): return Hostile()

topology = batches(Odd())
""",
        "Hostile.is_ready(self, txid) is called with ()",
    ),
    "a grouping": (
        """
class Hostile(Groups):
    def choose_tasks(self, values): return ()

topology = grouped(Hostile())
""",
        "Hostile.choose_tasks() is called with (source_task, values). Write def choose_tasks(self, source_task, values).",
    ),
    "a grouping without one": (
        "\nclass Hostile:\n    def choose_tasks(self, a, b): ...\n\ntopology = grouped(Hostile)\n",
        "has no prepare()",
    ),
}


@pytest.mark.guarantee("GRP-5")
@pytest.mark.parametrize("what", UNCALLABLE)
def test_methods_that_cannot_be_called_are_reported(what: str, player: Player) -> None:
    text, said = UNCALLABLE[what]
    status, errors = player.play("check", text, "Odd()")
    assert status == 2
    assert said in errors
    assert _is_clean(errors)
