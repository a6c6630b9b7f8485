"""Ends a server when no process holds its lock any longer. So the server ends even if kill -9 ends its program.

python -I -S keeper.py LOCK PID SIGNAL     prints `waits` when it is ready
"""

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress


def main() -> None:
    """Wait for the lock that all users of the server share, then end the server and its child processes."""
    lock = os.open(sys.argv[1], os.O_RDWR)
    os.write(1, b"waits\n")
    os.close(1)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for number in (int(sys.argv[3]), signal.SIGCONT):  # a frozen process gets the first signal only after the second
        signal_family(int(sys.argv[2]), number)


def signal_family(pid: int, number: int) -> list[int]:
    """Send a signal to a process and to all of its descendants. Returns their ids, or nothing if the process has ended.

    Descendants may lead their own groups, like PostgreSQL's. The process is stopped meanwhile, so that it starts no more of them.
    """
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        family = [pid, *descendants(pid)]
        for member in reversed(family):
            with suppress(ProcessLookupError):
                os.kill(member, number)
        return family
    return []


def descendants(pid: int) -> list[int]:
    """Return the running descendants of this process, children first."""
    parents = living()
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family[1:]


def command_line(pid: int) -> str:
    """Return the command line of a process. Empty after its end."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_stopped(pid: int) -> bool:
    """Tell whether each thread of a process is stopped, or the process has ended. Without /proc (not Linux) a signal is trusted."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{thread}/stat", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtZX":
                    return False
    return True


def living() -> dict[int, int]:
    """Return the parent of each running process of this machine. Zombies have none."""
    try:
        return dict(_told_by_proc())
    except FileNotFoundError:  # not Linux
        said = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, timeout=10, check=True).stdout
        return {int(pid): int(parent) for pid, parent, state in map(str.split, said.splitlines()) if not state.startswith("Z")}


def _told_by_proc() -> "list[tuple[int, int]]":
    found = []
    os.stat("/proc/self/stat")
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat", errors="replace") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]  # the name before may contain anything
            if state not in "ZX":
                found.append((int(pid), int(parent)))
    return found


if __name__ == "__main__":
    main()
