"""Runs the master and the workers of a cluster as its children. A worker that dies is replaced.

python -I -S spark_daemons.py SPARK_CLASS PORT WEB_PORT WORKERS     in the folder that is to hold what they keep

The file `worker-memory` there has the memory of each worker that starts from now on.

It ends when it is asked to, or the master ends.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

HOST = "127.0.0.1"
PAUSE_SECS = 0.025
LOOK_SECS = 0.5
WORKER = ("--cores", "4")
MEMORY_FILE = "worker-memory"


def main() -> int:
    """Start the master, then the workers. Returns the master's status."""
    spark_class, port, web_port, workers = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    deploy = "org.apache.spark.deploy"
    at = ("--host", HOST, "--port", str(port), "--webui-port", web_port)
    children = [subprocess.Popen([spark_class, f"{deploy}.master.Master", *at])]
    try:
        wait_for(port, children[0])

        def start_worker(number: int) -> "subprocess.Popen[bytes]":
            with open(MEMORY_FILE) as file:
                own = (*WORKER, "--memory", file.read(), "-d", os.path.abspath(f"worker-{number}"))
            at = ("--host", HOST, "--port", "0", "--webui-port", "0")
            return subprocess.Popen([spark_class, f"{deploy}.worker.Worker", *at, *own, f"spark://{HOST}:{port}"])

        children += [start_worker(number) for number in range(workers)]
        while children[0].poll() is None:
            for number, worker in enumerate(children[1:]):
                if worker.poll() is not None:
                    children[number + 1] = start_worker(number)
            time.sleep(LOOK_SECS)
        return children[0].wait()
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait()


def wait_for(port: int, master: "subprocess.Popen[bytes]") -> None:
    """Wait for the master first, because a refused worker waits many seconds before its next try."""
    while master.poll() is None:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(PAUSE_SECS)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    raise SystemExit(main())
