"""The virtual loop waits for threads and sockets outside of it."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from engine.testing.virtual_loop import VirtualTimeLoop, run_virtual
from tests.patience import PATIENCE_SECS
from tests.testing.virtual import loop_of_this_test, now


def in_a_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def ask(loop: asyncio.AbstractEventLoop) -> None:
    """Make the loop take several turns while this thread waits for it."""
    for _ in range(5):
        answered = threading.Event()
        loop.call_soon_threadsafe(answered.set)
        assert answered.wait(PATIENCE_SECS)


# Threads.


def test_time_stands_still_while_a_thread_runs() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ticks: list[float] = []
        loop.call_later(1e-6, lambda: ticks.append(now()))

        def work() -> str:
            ask(loop)
            return f"ended at {loop.time()}"

        assert await asyncio.to_thread(work) == "ended at 0.0"
        assert (now(), ticks) == (0.0, [])
        await asyncio.sleep(1)
        assert ticks == [1e-6]

    run_virtual(main)


def test_a_virtual_timeout_does_not_expire_while_a_thread_works() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(1e-6):
            await asyncio.to_thread(ask, loop)
        return "not timed out"

    assert run_virtual(main) == "not timed out"


def test_results_of_threads_arrive_in_the_order_of_submission() -> None:
    async def main() -> list[str]:
        landed: list[str] = []
        second_is_done = threading.Event()

        async def job(name: str, work: Callable[[], object]) -> None:
            await asyncio.to_thread(work)
            landed.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(job("first", lambda: second_is_done.wait(PATIENCE_SECS)))
            group.create_task(job("second", second_is_done.set))
        return landed

    assert run_virtual(main) == ["first", "second"]


def test_a_result_arrives_when_nothing_else_is_ready() -> None:
    async def main() -> int:
        job = asyncio.create_task(asyncio.to_thread(lambda: None))
        await asyncio.sleep(0)
        turns = 0
        while not job.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    turns = run_virtual(main)
    assert turns == run_virtual(main)
    assert turns == pytest.approx(VirtualTimeLoop.busy_turns_per_landing, abs=10)


class ImpatientLoop(VirtualTimeLoop):
    job_patience_secs = 0.01
    socket_patience_secs = 0.01


def test_a_thread_that_waits_for_the_result_of_another_gets_it() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()

        async def inner() -> str:
            return await asyncio.to_thread(lambda: "inner result")

        return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(inner(), loop).result(20))

    with asyncio.Runner(loop_factory=ImpatientLoop) as runner:
        assert runner.run(main()) == "inner result"


def test_an_exception_in_a_thread_is_raised() -> None:
    def raise_it(error: Exception) -> None:
        raise error

    async def main() -> None:
        with pytest.raises(KeyError, match="mine"):
            await asyncio.to_thread(raise_it, KeyError("mine"))
        with pytest.raises(RuntimeError, match="raise_it raised StopIteration"):
            await asyncio.to_thread(raise_it, StopIteration())

    run_virtual(main)


def test_time_stands_still_for_a_thread_whose_future_was_cancelled() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        begun, go_on, times = threading.Event(), threading.Event(), list[float]()

        def work() -> None:
            begun.set()
            go_on.wait(PATIENCE_SECS)
            ask(loop)
            times.append(loop.time())

        job = loop.run_in_executor(None, work)
        assert begun.wait(PATIENCE_SECS)
        job.cancel()
        go_on.set()
        await asyncio.sleep(1)
        assert job.cancelled()
        return times[0]

    assert run_virtual(main) == 0.0


def test_a_job_that_has_not_begun_is_cancelled_with_its_future() -> None:
    async def main() -> list[str]:
        ran: list[str] = []
        occupied = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            loop = asyncio.get_running_loop()
            first = loop.run_in_executor(pool, occupied.wait, 20)
            second = loop.run_in_executor(pool, ran.append, "second")
            await asyncio.sleep(0)
            second.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            occupied.set()
            await first
        await asyncio.sleep(1)
        return ran

    assert run_virtual(main) == []


def test_the_end_of_a_run_waits_for_its_threads() -> None:
    ended = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def work() -> None:
            ask(loop)
            ended.set()

        loop.run_in_executor(None, work)
        await asyncio.sleep(0)

    run_virtual(main)
    assert ended.is_set()


def test_a_closed_pool_and_a_closed_loop_refuse_jobs() -> None:
    async def main() -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(lambda: None)
        await loop.shutdown_default_executor()
        with pytest.raises(RuntimeError, match="shutdown"):
            await asyncio.to_thread(lambda: None)
        return loop

    loop = run_virtual(main)
    with pytest.raises(RuntimeError, match="closed"):
        loop.run_in_executor(None, lambda: None)


def test_a_hold_stops_time_for_a_users_own_thread() -> None:
    async def main() -> float:
        loop = loop_of_this_test()
        result: asyncio.Future[str] = loop.create_future()
        hold = loop.hold_time("my own thread")

        def work() -> None:
            ask(loop)
            loop.call_soon_threadsafe(result.set_result, "called")
            hold.release()
            hold.release()

        thread = in_a_thread(work)
        async with asyncio.timeout(1e-6):
            assert await result == "called"
        thread.join()
        return now()

    for _ in range(20):
        assert run_virtual(main) == 0.0


# Sockets.


@contextmanager
def socket_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        right.setblocking(False)
        yield left, right


def test_two_ends_of_a_socket_in_one_loop_take_no_virtual_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with socket_pair() as (left, right):
            receiving = asyncio.create_task(loop.sock_recv(right, 100))
            await asyncio.sleep(0)
            await loop.sock_sendall(left, b"hello")
            assert await receiving == b"hello"
        return now()

    assert run_virtual(main) == 0.0


def test_streams_over_tcp_work() -> None:
    async def main() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
            writer.write(b"hello\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
        return answer

    assert run_virtual(main) == b"hello\n"


def test_a_peer_outside_the_loop_is_in_time_for_a_timeout() -> None:
    async def main() -> bytes:
        with socket_pair() as (left, right):
            loop = asyncio.get_running_loop()
            asked = threading.Event()
            peer = in_a_thread(lambda: asked.wait(PATIENCE_SECS) and left.send(b"answer"))
            receiving = asyncio.create_task(loop.sock_recv(right, 100))
            await asyncio.sleep(0)
            loop.call_soon(asked.set)
            async with asyncio.timeout(3600):
                answer = await receiving
            peer.join()
            return answer

    class PatientLoop(VirtualTimeLoop):
        socket_patience_secs = PATIENCE_SECS

    with asyncio.Runner(loop_factory=PatientLoop) as runner:
        assert runner.run(main()) == b"answer"


def test_an_idle_socket_delays_a_jump_only_by_the_patience() -> None:
    async def main() -> float:
        with socket_pair() as (_, right):
            loop = asyncio.get_running_loop()
            loop.add_reader(right, lambda: None)
            await asyncio.sleep(1e6)
            loop.remove_reader(right)
        return now()

    begun = time.monotonic()
    with asyncio.Runner(loop_factory=ImpatientLoop) as runner:
        assert runner.run(main()) == 1e6
    assert time.monotonic() - begun >= ImpatientLoop.socket_patience_secs * 0.9


def test_a_hold_stops_time_for_a_peer_longer_than_the_patience() -> None:
    async def main() -> bytes:
        with socket_pair() as (left, right):
            loop = loop_of_this_test()
            slow = threading.Timer(ImpatientLoop.socket_patience_secs * 5, left.send, [b"late"])
            slow.start()
            with loop.hold_time("a slow reply"):
                async with asyncio.timeout(1):
                    answer = await loop.sock_recv(right, 100)
            slow.join()
            return answer

    with asyncio.Runner(loop_factory=ImpatientLoop) as runner:
        assert runner.run(main()) == b"late"
