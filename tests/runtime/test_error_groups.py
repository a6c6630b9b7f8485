"""Reports contain the members of exception groups, notes, and the error that was being handled (SV-5)."""

import asyncio
from typing import Any

import pytest

from engine import BasicBolt, Tuple
from engine.runtime.error_report import ErrorReporter, error_text, user_traceback
from tests.runtime.stage import Numbers, chain, play_run

pytestmark = pytest.mark.guarantee("SV-5")


async def fetch(name: str) -> None:
    raise ConnectionError(f"{name} refused")


class Fetches(BasicBolt):
    """Asks two services at once."""

    def execute(self, tup: Tuple) -> Any:
        return self.ask(tup)

    async def ask(self, tup: Tuple) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch("users"))
            group.create_task(fetch("prices"))


def test_an_exception_group_is_reported_with_its_members() -> None:
    failures: list[Any] = []

    class Source(Numbers):
        def fail(self, message_id: Any) -> None:
            failures.append(self.context.failure)

    run = play_run(chain(lambda: Source(1), Fetches))
    [report] = run.snapshot().errors
    held = "ConnectionError: users refused; ConnectionError: prices refused"
    expected = f"ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions): {held}"
    assert report.text == expected
    assert failures[0].error == expected
    assert report.traceback.count('raise ConnectionError(f"{name} refused")') == 2
    assert "asyncio/taskgroups" not in report.traceback
    assert "sub-exception 1 of 2" in report.traceback
    assert report.traceback.count("ConnectionError: prices refused") == 1


def test_a_large_group_and_a_deep_group_are_shortened() -> None:
    many = ExceptionGroup("many", [ValueError(number) for number in range(1000)])
    assert error_text(many) == "ExceptionGroup: many (1000 sub-exceptions): ValueError: 0; ValueError: 1; ValueError: 2; and 997 more"
    deep: BaseException = ValueError("bottom")
    for _ in range(500):
        deep = BaseExceptionGroup("deep", [deep])
    assert len(error_text(deep)) <= 2000
    assert len(user_traceback(deep)) < 10_000
    assert user_traceback(many).count("sub-exception") == 4


def test_groups_with_different_members_are_different_errors() -> None:
    told: list[str] = []
    loop = asyncio.new_event_loop()
    reporter = ErrorReporter("a", 1, loop, lambda report: told.append(report.text))

    def group(*errors: Exception) -> ExceptionGroup[Exception]:
        try:
            raise ExceptionGroup("some", errors)
        except ExceptionGroup as error:
            return error

    reporter.report(group(ValueError("1")), next_step="none")
    reporter.report(group(ValueError("1")), next_step="none")
    reporter.report(group(KeyError("1")), next_step="none")
    reporter.close()
    loop.close()
    assert [text.rpartition(": ")[0] for text in told] == [
        "ExceptionGroup: some (1 sub-exception): ValueError",
        "ExceptionGroup: some (1 sub-exception): KeyError",
    ]


def caught(act: Any) -> BaseException:
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize("full", [False, True])
def test_the_handled_exception_is_reported_unless_from_none_is_used(full: bool) -> None:
    def replaces() -> None:
        try:
            {}["usd"]
        except KeyError:
            raise ValueError("bad row")  # noqa: B904 - forgotten by many

    def hides() -> None:
        try:
            {}["usd"]
        except KeyError:
            raise ValueError("bad row") from None

    text = user_traceback(caught(replaces), full=full)
    assert '{}["usd"]' in text
    assert "KeyError: 'usd'\nwhile that was handled:\n" in text
    assert '{}["usd"]' not in user_traceback(caught(hides), full=full)


def test_an_error_that_the_engine_handles_is_not_the_context_of_the_next_one() -> None:
    class Fragile(BasicBolt):
        on_error = "restart"
        made = 0

        def prepare(self) -> None:
            Fragile.made += 1
            if Fragile.made == 2:
                raise OSError("no connection")

        def execute(self, tup: Tuple) -> None:
            if Fragile.made == 1:
                raise ValueError("first")

    run = play_run(chain(lambda: Numbers(2), Fragile))
    first, second = run.snapshot().errors
    assert (first.text, second.text) == ("ValueError: first", "OSError: no connection")
    assert "first" not in second.traceback


def test_notes_are_reported() -> None:
    error = ValueError("bad row")
    error.add_note("in line 7 of orders.csv")
    assert error_text(error) == "ValueError: bad row\nin line 7 of orders.csv"
