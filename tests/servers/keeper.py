"""Ends a server when nobody holds its lock any longer: when the program that started it ended, by whatever death.

python -I -S keeper.py LOCK PID     says `waits` once it runs; a lock of the system is released when its holder dies
"""

import fcntl
import os
import signal
import sys


def main() -> None:
    """Wait for the lock that all users of the server share, then kill the server."""
    lock = os.open(sys.argv[1], os.O_RDWR)
    os.write(1, b"waits\n")
    os.close(1)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        os.kill(int(sys.argv[2]), signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended before


if __name__ == "__main__":
    main()
