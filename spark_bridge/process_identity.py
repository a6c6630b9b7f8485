"""Identity of a process, which outlives the process and tells later whether it is dead.

An identity names the boot of the machine, the PID namespace, the PID and the start time. So another process with the same PID, another
container and another machine with the same host name have other identities.
"""

import os
import re
from typing import Final, NamedTuple

_IDENTITY: Final = re.compile(r"([0-9a-f]+\.\d+)-(\d+)-(\d+)")


def process_identity(pid: int) -> str | None:
    """Return the identity of a process of this machine, which is a valid file name. None if the system does not tell it."""
    place, process = _place(), _process(pid)
    return None if place is None or process is None else f"{place}-{pid}-{process.started_ticks}"


def is_known_dead(identity: str) -> bool:
    """Tell whether the process with this identity is dead. False for processes of other boots, containers and machines."""
    found = _IDENTITY.fullmatch(identity)
    if found is None or found[1] != _place():
        return False
    pid = int(found[2])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    process = _process(pid)
    return process is not None and (process.is_over or process.started_ticks != int(found[3]))


def _place() -> str | None:
    """Return the ids of this boot and of the PID namespace. None if the system does not provide them."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip().replace("-", "")
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return None


class _Process(NamedTuple):
    started_ticks: int
    """Clock ticks from the boot to the start of the process."""
    is_over: bool
    """True for a zombie."""


def _process(pid: int) -> _Process | None:
    """Return the kernel's facts about a process. None if there are none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, *numbers = file.read().rpartition(")")[2].split()
        return _Process(int(numbers[18]), state in "ZX" and int(numbers[16]) <= 1)
    except (OSError, ValueError, IndexError):
        return None
