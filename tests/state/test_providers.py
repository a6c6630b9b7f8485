"""The text of `state_provider` selects the provider."""

import sys
from pathlib import Path

import pytest

from engine.cli.main import run_command_line
from engine.errors import StateProviderError
from engine.installation import install_command
from engine.state import provider_of
from engine.state.memory import MemoryProvider
from engine.state.sqlite.provider import SqliteProvider

HERE = "tests.state.test_providers"


def made(argument: str = "nothing") -> MemoryProvider:
    provider = MemoryProvider()
    provider.argument = argument  # type: ignore[attr-defined]
    return provider


def not_one(argument: str = "") -> object:
    return object()


def raises(argument: str = "") -> object:
    raise KeyError(argument)


NOTHING = 5


def path_of(url: str) -> Path:
    provider = provider_of(url)
    assert isinstance(provider, SqliteProvider)
    return provider._file.path


@pytest.mark.guarantee("CP-8")
def test_the_scheme_of_the_url_selects_the_provider() -> None:
    assert isinstance(provider_of("memory://"), MemoryProvider)
    assert path_of("sqlite:///counts.db") == Path("counts.db")
    assert path_of("sqlite:////var/lib/counts.db") == Path("/var/lib/counts.db")
    assert path_of("sqlite:///with%20space.db") == Path("with space.db")
    assert path_of("sqlite:///%ff.db") == Path("\udcff.db")  # bytes that are no UTF-8, as file names have them


@pytest.mark.guarantee("CP-8")
def test_a_users_own_provider_is_named_by_module_and_function() -> None:
    assert provider_of(f"{HERE}:made").argument == "nothing"  # type: ignore[attr-defined]
    assert provider_of(f"{HERE}:made?redis://host:1/0?x=y").argument == "redis://host:1/0?x=y"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("memory://x", "has no options"),
        ("sqlite://counts.db", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///a.db?mode=ro", "names no file"),
        ("sqlite:///a%00b.db", "names no file"),
        ("sqlite:///\ud800.db", "names no file"),
        ("sqlite://[", "names no file"),
        ("sqlite://[::1/a.db", "names no file"),
        ("sqlit:///a.db", "Did you mean 'sqlite'?"),
        ("counts.db", "no such state provider"),
        ("no_such_package.x:f", "cannot be loaded"),
        (f"{HERE}:no_such", "cannot be loaded"),
        (":made", "cannot be loaded"),
        (f"{HERE}:NOTHING", "is not callable"),
        (f"{HERE}:not_one", "which is not a StateProvider"),
        ("tests.state.raises:made", "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_text_that_names_no_provider_is_refused(url: str, text: str) -> None:
    with pytest.raises(StateProviderError) as caught:
        provider_of(url)
    assert text in str(caught.value)
    assert repr(url) in caught.value.message


@pytest.mark.guarantee("CP-8")
@pytest.mark.parametrize(("scheme", "client", "extra"), [("redis", "redis", "redis"), ("zookeeper", "kazoo", "zookeeper")])
def test_the_error_names_a_client_that_is_not_installed(scheme: str, client: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith((f"{client}.", f"engine.state.{extra}"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, client, None)
    with pytest.raises(StateProviderError, match="which is not installed") as told:
        provider_of(f"{scheme}://host/x")
    assert told.value.hint == install_command(extra)


TOPOLOGY = """
from engine import TopologyBuilder, spout, stateful_bolt

@spout("number")
def numbers():
    yield (1,)

@stateful_bolt()
def count(tup, state):
    state.put(tup["number"], 1)

builder = TopologyBuilder("numbers")
builder.set_spout("numbers", numbers)
builder.set_bolt("count", count).fields_grouping("numbers", "number")
"""


@pytest.mark.guarantee("RUN-4")
@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("sqlite:///a%00b.db", "names no file"),
        ("sqlit:///a.db", "Did you mean 'sqlite'?"),
        ("sqlite:///no/such/folder/a.db", "the folder 'no/such/folder' of the state does not exist"),
        ("sqlite:///folder", "'folder' is not a file"),
        ("sqlite:///loop.db", "the state in 'loop.db' cannot be opened: its links are circular"),
        ("sqlite:////dev/null", "'/dev/null' is not a file"),
        (f"sqlite:///{'x' * 300}.db", "cannot be opened: File name too long"),
        (f"sqlite:///{'d/' * 3000}a.db", "cannot be opened: File name too long"),
        ("redis://host/x", "is not the number of a database"),
        ("zookeeper://[::1/path", "the zookeeper:// URL has no valid host and port"),
        (f"{HERE}:raises?secret", "creating the provider raised KeyError: 'secret'"),
        (f"{HERE}:not_one", "which is not a StateProvider"),
    ],
)
def test_a_run_with_a_wrong_state_provider_is_refused(
    url: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("loop.db").symlink_to("loop.db")
    (tmp_path / "numbers.py").write_text(TOPOLOGY)
    assert run_command_line(["run", f"{tmp_path}/numbers.py", "-c", f"state_provider={url}"]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert "Traceback" not in err
