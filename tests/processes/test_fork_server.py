"""Children start, and their ends are found, whatever happens to the fork server and to what surrounds the program (PR-1, PR-2)."""

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config
from engine.runtime.processes import fork_server
from engine.runtime.processes.fork_server import FORK_SERVER
from engine.runtime.processes.forked_process import ANSWER, ForkedProcess
from tests.processes.program_bolts import Surroundings
from tests.processes.test_deaths import endless, pids, runs, until
from tests.processes.test_instances import Play
from tests.processes.test_pickling import SCRIPT
from tests.project.sources import ROOT


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a hanging server be found soon, and leave none of its kind to the next test."""
    monkeypatch.setattr(fork_server, "ANSWER_SECS", 1.0)
    yield
    FORK_SERVER.end()


def strike_server(number: signal.Signals) -> None:
    assert FORK_SERVER.pid is not None
    os.kill(FORK_SERVER.pid, number)


@pytest.mark.guarantee("PR-2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
def test_children_outlive_their_server_and_are_replaced(number: signal.Signals, server: None, tmp_path: Path) -> None:
    path = tmp_path / "pids"

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(endless(path, 2)) as run:
            await until(lambda: run.snapshot().components["bolt"].acked > 20)
            strike_server(number)
            acked = run.snapshot().components["bolt"].acked
            await until(lambda: run.snapshot().components["bolt"].acked > acked + 20)
            assert [task.restarts for task in run.snapshot().components["bolt"].tasks] == [0, 0]
            os.kill(pids(path)[0], signal.SIGKILL)
            await until(lambda: len(pids(path)) == 3)
            [report] = run.snapshot().errors
            assert ("was killed by SIGKILL" if number == signal.SIGTERM else "a status that nobody knows") in report.text

    asyncio.run(main())
    asyncio.run(until(lambda: not any(map(runs, pids(path))), secs=2))


@pytest.mark.guarantee("PR-2")
def test_a_child_that_hangs_is_found_after_the_end_of_the_server(server: None, tmp_path: Path) -> None:
    path = tmp_path / "pids"

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(endless(path), Config(max_spout_pending=500, process_timeout_secs=1)) as run:
            await until(lambda: run.snapshot().components["bolt"].acked > 20)
            strike_server(signal.SIGKILL)
            await asyncio.sleep(0.1)
            os.kill(pids(path)[0], signal.SIGSTOP)
            await until(lambda: len(pids(path)) == 2)
            assert "has hung for 1 s (process_timeout_secs) and was killed" in run.snapshot().errors[0].text
            await run.stop()

    asyncio.run(main())


def facts() -> dict[str, Any]:
    [(found,)] = Play(Surroundings, range(1)).capture.values
    return dict(found)


@pytest.mark.guarantee("PR-1")
def test_a_child_has_the_surroundings_of_the_program_at_its_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = facts()
    assert before["variable"] is None
    assert before["folder"] == os.getcwd()
    assert before["arguments"] == sys.argv
    assert (before["parent"], before["is_parent_alive"], before["name"]) == (os.getpid(), True, "play/bolt[2]")

    monkeypatch.setenv("OF_THE_PROGRAM", "later \udcff")
    monkeypatch.setenv("TZ", "XYZ-3")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    umask, limit, core = os.umask(0o027), sys.getrecursionlimit(), resource.getrlimit(resource.RLIMIT_CORE)
    sys.setrecursionlimit(limit + 77)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if core[0] else core[1], core[1]))
    try:
        expected = {
            "variable": "later \udcff", "zone": "XYZ", "folder": str(tmp_path), "umask": 0o027, "recursion_limit": limit + 77,
            "path": sys.path, "core_size": resource.getrlimit(resource.RLIMIT_CORE)[0],
        }  # fmt: skip
        after = facts()
    finally:
        os.umask(umask)
        sys.setrecursionlimit(limit)
        resource.setrlimit(resource.RLIMIT_CORE, core)
    assert {name: after[name] for name in expected} == expected


def play_program(folder: Path, program: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    (folder / "program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, str(folder / "program.py"), *arguments]
    surroundings = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=60)


OF_A_SERVICE = """
    import asyncio, multiprocessing.util, os, shutil, signal, sys
    from pathlib import Path
    import engine
    from tests.processes.test_deaths import endless, pids, until

    async def main(path, gone):
        async with engine.run(endless(path)) as run:
            await until(lambda: pids(path))
            if gone == "working directory":
                shutil.rmtree(os.getcwd())
            elif gone == "temporary folder":
                shutil.rmtree(multiprocessing.util.get_temp_dir())
            os.kill(pids(path)[0], signal.SIGKILL)
            await until(lambda: len(pids(path)) == 2)
            await run.stop()

    if __name__ == "__main__":
        folder = Path(sys.argv[1]) / "current"
        folder.mkdir()
        os.chdir(folder)
        asyncio.run(main(Path(sys.argv[1]) / "pids", sys.argv[2]))
"""


@pytest.mark.guarantee("PR-2")
@pytest.mark.parametrize("gone", ["working directory", "temporary folder"])
def test_a_child_starts_after_a_folder_is_gone(gone: str, tmp_path: Path) -> None:
    done = play_program(tmp_path, OF_A_SERVICE, str(tmp_path), gone)
    assert done.returncode == 0, done.stderr


@pytest.mark.guarantee("PR-1")
def test_a_child_starts_with_a_long_name_of_the_temporary_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    done = play_program(tmp_path, SCRIPT, TMPDIR=str(folder))
    assert done.stdout.split() == ["1", "2", "3", "4"], done.stderr


ON_A_NEWER_PYTHON = """
    from multiprocessing import forkserver, spawn
    prepare = spawn.get_preparation_data

    def with_program(name):  # as Python 3.13.8 and 3.14 really preload the program into the fork server of multiprocessing
        found = prepare(name)
        return found | {"main_path": found["init_main_from_path"]} if name == "ignore" and "init_main_from_path" in found else found

    spawn.get_preparation_data = with_program

    import asyncio, os
    import engine
    from engine import BasicBolt, TopologyBuilder, bolt, spout

    IMPORTED_BY = os.getpid()

    class Own(BasicBolt):
        output_fields = "is_own"
        def execute(self, tup):
            return (IMPORTED_BY == os.getpid(),)

    @spout("number")
    def numbers():
        yield (1,)

    @bolt()
    def show(tup):
        print(tup["is_own"], flush=True)

    async def main():
        builder = TopologyBuilder("own")
        builder.set_spout("numbers", numbers)
        builder.set_bolt("own", Own, processes=True).shuffle_grouping("numbers")
        builder.set_bolt("show", show).shuffle_grouping("own")
        async with engine.run(builder.build()) as run:
            await run.completed()
        print(forkserver._forkserver._preload_modules)

    if __name__ == "__main__":
        forkserver.set_forkserver_preload(["of_the_program"])
        asyncio.run(main())
"""


@pytest.mark.guarantee("PR-1")
def test_each_child_imports_the_program_itself(tmp_path: Path) -> None:
    """So children share no random state, thread, socket or lock of the program. Its own fork server stays as it is."""
    done = play_program(tmp_path, ON_A_NEWER_PYTHON)
    assert done.stdout.splitlines() == ["True", "['of_the_program']"], done.stderr


FROM_STANDARD_INPUT = """
import asyncio, engine
from tests.processes import bolts
from engine import BasicBolt, TopologyBuilder, bolt, spout

@spout("number")
def numbers():
    yield (1,)

class Own(BasicBolt):
    output_fields = "number"
    def execute(self, tup):
        return (tup["number"],)

@bolt()
def show(tup):
    print(tuple(tup), flush=True)

builder = TopologyBuilder("read")
builder.set_spout("numbers", numbers)
builder.set_bolt("bolt", BOLT, processes=True).shuffle_grouping("numbers")
builder.set_bolt("show", show).shuffle_grouping("bolt")

async def main():
    async with engine.run(builder.build()) as run:
        await run.completed()

asyncio.run(main())
"""


def play_standard_input(name: str) -> "subprocess.CompletedProcess[str]":
    program = FROM_STANDARD_INPUT.replace("BOLT", name)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-"], input=program, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.guarantee("PR-1")
def test_a_program_from_standard_input_may_use_bolts_of_a_file() -> None:
    assert play_standard_input("bolts.squares").stdout == "(1,)\n"


@pytest.mark.guarantee("PR-1", "GRP-5")
def test_build_refuses_a_bolt_of_a_program_without_a_file() -> None:
    done = play_standard_input("Own")
    assert "Own is defined in __main__, which a new process cannot import" in done.stderr
    assert "standard input" in done.stderr
    assert "__name__" not in done.stderr.rpartition("TopologyError")[2]


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("name", ["random", "queue", "token"])
def test_modules_of_the_user_may_have_names_of_the_standard_library(name: str, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(SCRIPT)
    (tmp_path / f"{name}.py").write_text("raise ImportError('this is no module of the standard library')")
    command = (sys.executable, "-P", "-m", "engine", "run", "flow.py", "--plain")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "2", "3", "4"], done.stderr


WITH_A_SERVER_THAT_HANGS = """
    import asyncio, os, signal, sys
    from pathlib import Path
    import engine
    from engine.runtime.processes.fork_server import FORK_SERVER
    from tests.processes.test_deaths import endless, pids, until

    async def main(path):
        async with engine.run(endless(path)) as run:
            await until(lambda: pids(path))
            os.kill(FORK_SERVER.pid, signal.SIGSTOP)
            print(FORK_SERVER.pid)

    if __name__ == "__main__":
        asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.guarantee("PR-2", "RUN-5")
def test_a_program_ends_although_its_server_hangs(tmp_path: Path) -> None:
    done = play_program(tmp_path, WITH_A_SERVER_THAT_HANGS, str(tmp_path / "pids"))
    assert done.returncode == 0, done.stderr
    assert not runs(int(done.stdout))
    assert done.stderr == ""  # no warning of a process that still ran, in a thread


WITH_A_CHILD_OF_NO_RUN = """
    from engine.runtime.processes.child_process import FORK_SERVER

    if __name__ == "__main__":
        connection, process = FORK_SERVER.fork("a task")
        print(process.pid, flush=True)
"""


@pytest.mark.guarantee("PR-2")
def test_the_end_of_a_program_kills_what_no_run_has_closed(tmp_path: Path) -> None:
    """It needs the descriptors of the processes, which Python would close first."""
    done = play_program(tmp_path, WITH_A_CHILD_OF_NO_RUN)
    assert (done.returncode, done.stderr) == (0, "")
    assert not runs(int(done.stdout))


THAT_FORKS_BETWEEN_RUNS = """
    import asyncio, os
    from tests.processes import bolts
    from tests.processes.test_deaths import Numbers

    if __name__ == "__main__":
        Numbers(bolts.Echo).play()
        forked = os.fork()
        numbers = Numbers(bolts.Echo)
        numbers.play()
        if forked:
            assert os.waitpid(forked, 0)[1] == 0
        print(len(numbers.capture.values), flush=True)
"""


@pytest.mark.guarantee("PR-2")
def test_a_fork_of_a_program_has_children_of_its_own(tmp_path: Path) -> None:
    done = play_program(tmp_path, THAT_FORKS_BETWEEN_RUNS)
    assert done.stdout.split() == ["40", "40"], done.stderr


AS_THE_FIRST_OF_A_CONTAINER = """
    import asyncio, ctypes, os, signal, sys
    from functools import partial
    from engine import TopologyBuilder, run
    from engine.runtime.processes.fork_server import FORK_SERVER
    from engine.testing import Feeder
    from tests.processes import bolts
    from tests.processes.test_deaths import until

    async def main(path):
        feeder = Feeder("number")
        builder = TopologyBuilder("adopting")
        builder.set_spout("numbers", feeder)
        builder.set_bolt("bolt", partial(bolts.Crashes, path, 7, "exit"), processes=True).shuffle_grouping("numbers")
        async with run(builder.build()) as running:
            os.kill(FORK_SERVER.pid, signal.SIGKILL)
            feeder.feed((7,))
            await until(lambda: running.snapshot().errors)
            print(running.snapshot().errors[0].text)
            await running.stop()

    if __name__ == "__main__":
        PR_SET_CHILD_SUBREAPER = 36
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.guarantee("PR-2")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt others")
def test_a_program_that_adopts_children_tells_their_status(tmp_path: Path) -> None:
    done = play_program(tmp_path, AS_THE_FIRST_OF_A_CONTAINER, str(tmp_path / "pid"))
    assert "ended with status 3" in done.stdout, done.stderr


@pytest.mark.guarantee("PR-2")
@pytest.mark.parametrize("knows_status", [False, True])
def test_without_pidfds_the_end_of_a_process_is_found_by_its_id(knows_status: bool) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    async def main() -> int | None:
        ours, server = socket.socketpair()
        process = ForkedProcess("old/kernel[1]", other.pid, None, ours.detach())
        ended = asyncio.Event()
        process.watch(asyncio.get_running_loop(), ended.set)
        assert process.is_running
        if not knows_status:
            server.close()
            await asyncio.sleep(0.2)
            assert not ended.is_set()
        process.kill()
        with other:
            other.wait()
        if knows_status:
            server.sendall(ANSWER.pack(-signal.SIGKILL))
            server.close()
        await asyncio.wait_for(ended.wait(), 20)
        assert not process.is_running
        return process.status

    assert asyncio.run(main()) == (-signal.SIGKILL if knows_status else None)
