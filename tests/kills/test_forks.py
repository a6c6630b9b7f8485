"""A forked program behaves as one that was started: arguments, files, exit status, signals."""

import os
import signal
import sys
import tempfile

import pytest

from tests.kills.forks import run_forked, start_forked

PROGRAM = "tests.kills.test_forks"


def test_it_has_its_arguments_and_its_own_output() -> None:
    ended = run_forked(PROGRAM, "say", "hello")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "['say', 'hello'] __main__\n", "")


def test_an_exception_is_status_1_with_its_traceback() -> None:
    ended = run_forked(PROGRAM, "raise")
    assert ended.returncode == 1
    assert "LookupError: raise" in ended.stderr


def test_an_exit_status_is_its_own() -> None:
    assert run_forked(PROGRAM, "exit").returncode == 7


def test_a_program_that_does_not_end_is_killed() -> None:
    with pytest.raises(TimeoutError, match=r"tests.kills.test_forks did not end within 0.1 s"):
        run_forked(PROGRAM, "wait", secs=0.1)


async def test_a_killed_program_has_the_status_of_the_signal() -> None:
    with tempfile.TemporaryFile() as log:
        program = await start_forked(PROGRAM, "wait", stderr=log)
        assert program.pid != os.getpid()
        assert program.returncode is None
        program.kill()
        await program.close()
        assert program.returncode == await program.wait() == -signal.SIGKILL


async def test_it_reads_its_standard_input_until_this_process_closes_it() -> None:
    program = await start_forked(PROGRAM, "echo")
    program.write_stdin(b"a line\n")
    assert await program.stdout.readline() == b"a line\n"
    program.kill()
    assert await program.stdout.read() == b""
    await program.close()


def main(command: str, *rest: str) -> None:
    if command == "say":
        print(sys.argv[1:], __name__)
    elif command == "exit":
        sys.exit(7)
    elif command == "raise":
        raise LookupError(command)
    elif command == "echo":
        sys.stdout.write(sys.stdin.readline())
        sys.stdout.flush()
        sys.stdin.read()
    else:
        print("waiting", file=sys.stderr, flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
