"""Watching costs next to nothing (WEB-3)."""

import asyncio
import socket
import threading
import time

import pytest

from tests.web.runs import served

WATCHED_SECS = 4.0
MOST_SHARE = 0.01


@pytest.mark.alone
@pytest.mark.guarantee("WEB-3")
async def test_ten_readers_take_less_than_a_hundredth_of_the_loop() -> None:
    async with served() as (_, serving):
        sockets = [socket.create_connection((serving.address.host, serving.address.port)) for _ in range(10)]
        received = [0] * len(sockets)

        def read(number: int) -> None:
            sockets[number].sendall(b"GET /api/events HTTP/1.0\r\nHost: localhost\r\n\r\n")
            while chunk := sockets[number].recv(1_000_000):
                received[number] += chunk.count(b"event: sample")

        threads = [threading.Thread(target=read, args=(number,)) for number in range(len(sockets))]
        for thread in threads:
            thread.start()
        await asyncio.sleep(0.5)
        began, cpu = time.monotonic(), time.thread_time()  # of this thread, which is the loop's; the readers have their own
        await asyncio.sleep(WATCHED_SECS)
        share = (time.thread_time() - cpu) / (time.monotonic() - began)
    for thread in threads:
        thread.join()
    for each in sockets:
        each.close()
    assert min(received) >= WATCHED_SECS
    assert share < MOST_SHARE
