"""PostgreSQL's programs are found, or the error says why not."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import postgres_programs
from tests.servers.postgres_programs import NoPrograms

Fake = Callable[[str, int], Path]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """Make a program that ends with a status. There is no other program, the caches are empty, and the user is not root."""
    for name in ("DEBIAN", "OPEN_CACHE"):
        monkeypatch.setattr(postgres_programs, name, tmp_path / name)
    monkeypatch.setattr(postgres_programs, "_why_no_user", lambda: None)
    monkeypatch.setattr(postgres_programs, "unprivileged", list)
    monkeypatch.setattr("tests.servers.maven.RETRY_SECS", (0,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name: str, status: int) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable}\nimport sys\nprint('{name} is broken', file=sys.stderr)\nsys.exit({status})\n")
        path.chmod(0o755)
        return path.parent

    return make


def found() -> Path:
    return postgres_programs.programs.__wrapped__()


def test_missing_programs_are_reported(fake: Fake) -> None:
    with pytest.raises(NoPrograms, match=r"scripts/install-system-packages maven; postgres is neither on the path nor in .*DEBIAN$"):
        found()


def test_installed_programs_are_used_if_none_can_be_downloaded(fake: Fake) -> None:
    fake("mvn", 1)
    fake("DEBIAN/9.6/bin/postgres", 0)
    newest = fake("DEBIAN/15/bin/postgres", 0)
    assert found() == newest
    on_path = fake("postgres", 0)
    assert found() == on_path


def test_programs_that_do_not_run_are_reported(fake: Fake) -> None:
    fake("mvn", 1)
    fake("postgres", 3)
    with pytest.raises(NoPrograms, match=r"Maven could not fetch .*mvn is broken; .*postgres does not run here: postgres is broken"):
        found()


def test_a_machine_without_programs_is_reported(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    with pytest.raises(NoPrograms, match=r"Maven has no PostgreSQL for .* vax; "):
        found()


def test_root_needs_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPrograms, match=r"does not run as root, and setpriv .* is not installed: run the tests as another user"):
        found()
