"""Questions to brokers: their errors, and connections that they leave open."""

import asyncio
import gc
import socket
import ssl
import struct
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from engine.kafka import KafkaSecurity
from engine.kafka.client.admin_client import ClusterConfig
from engine.kafka.client.connect import connection_error
from tests.servers.certificates import Certificates
from tests.servers.process import HOST

ANSWER_TO_NOBODY = struct.pack(">ii", 4, -1)
"""A size, and the number of a request that was never sent. The client closes the connection."""


@contextmanager
def stays_on_the_line(certificates: Certificates) -> Iterator[str]:
    """A TLS server that sends one client a wrong answer, and does not end TLS within the block."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.key_and_certificate)

    def answer() -> ssl.SSLSocket:
        taken, _ = listening.accept()
        taken.settimeout(30)
        speaking = context.wrap_socket(taken, server_side=True)
        speaking.recv(1000)
        speaking.sendall(ANSWER_TO_NOBODY)
        return speaking

    with socket.create_server((HOST, 0)) as listening, ThreadPoolExecutor(1) as thread:
        listening.settimeout(30)
        answering = thread.submit(answer)
        yield f"{HOST}:{listening.getsockname()[1]}"
        answering.result().close()


def test_asking_a_broker_leaves_no_open_socket(tmp_path: Path) -> None:
    """Given a broker that does not end TLS, when a loop that asked it ends, then no socket is left."""
    certificates = Certificates.made_in(tmp_path)
    gc.collect()
    with stays_on_the_line(certificates) as address, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        security = KafkaSecurity(protocol="SSL", cafile=str(certificates.ca))
        told = str(asyncio.run(connection_error(ClusterConfig(brokers=address, security=security))))
        gc.collect()
    assert "Correlation ids do not match" in told
    assert [str(one.message) for one in seen] == []
