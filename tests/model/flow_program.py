"""Random schedules of flow control, compared with its model: tasks ack late, fail, stall, die and return.

A program is bytes; three of them are one step, as in `ledger_program`.
"""

from random import Random

from engine.errors import ERROR, FAILED, TASK_DIED, TIMEOUT, Failure, FailureReason
from engine.flow.controller import FlowController
from engine.flow.records import Records
from engine.flow.settings import FlowSettings
from engine.kernel import PackDelivery
from tests.model.flow_model import DoneRecords, Held, ModelDelivery, ModelTask
from tests.model.ledger_program import pick

STALL_SECS = 30.0
DOWNSTREAM = 999
TOLERANCE = 1e-9
OF_RECORDS = (ERROR, FAILED)


class FlowProgram:
    """One controller and its tasks. Every answer is compared with the model's, step by step."""

    STEPS = (
        *("offer", "offer", "send", "send", "send", "send_all", "settle", "settle", "settle", "settle_all", "ack", "ack", "ack"),
        *("fail", "time_out", "die", "fail_downstream", "wait", "wait", "wait_long"),
    )

    def __init__(self, seed: int, *, tasks: int, width: int, calm: int, settings: FlowSettings) -> None:
        """Only one in `calm` of a program's faults takes place."""
        self.random, self.settings, self.calm = Random(seed), settings, calm
        self.now = self.random.choice([0.0, 1e6])
        ids = [10 + 3 * index for index in range(tasks)]
        self.controller = FlowController(settings, ids, concurrency=width, stall_secs=STALL_SECS)
        self.windows = {window.task_id: window for window in self.controller.chooser.windows}
        self.tasks = {task: ModelTask(settings, width) for task in ids}
        self.records = DoneRecords()
        self.offered = self.sent = 0
        self.given_up: set[int] = set()
        self.deliveries: dict[PackDelivery, ModelDelivery] = {}
        """All open trees."""
        self.settled: set[PackDelivery] = set()
        """Deliveries whose task has acked its own part."""
        self.next_stall_look = 0.0
        self.probed_again = False

    def run(self, program: bytes) -> None:
        """Run all steps, then drain everything: every record that was offered must be done."""
        for step in range(0, len(program) - 2, 3):
            self.now += self.random.choice([0.0, 1e-6, 0.001, 0.003])
            getattr(self, pick(self.STEPS, program[step]))(program[step + 1], program[step + 2])
            self.compare()
        self.finish()

    def finish(self) -> None:
        """End the source, and ack everything. Half of the packs that were called back never get a verdict."""
        self.controller.source_ended = True
        gone = {delivery for delivery in self.deliveries if delivery.was_called_back and self.random.random() < 0.5}
        for _ in range(100_000):
            if not self.controller.has_work and self.deliveries.keys() <= gone:
                break
            self.now += 0.05
            self.send_all(0, 0)
            for delivery in [each for each in self.deliveries if each not in gone]:
                self.ack_tree(delivery)
            self.compare()
        assert self.records.done == set(range(1, self.offered + 1)), "a record is lost"
        assert self.controller.prefix.done == self.offered
        assert self.controller.pending_records == self.controller.buffered_records == 0

    # Steps

    def offer(self, first: int, second: int) -> None:
        """The producer yields as many records as are wanted, or a few more."""
        wanted = self.controller.records_wanted(self.now)
        self.look_for_stalls()
        if self.controller.source_ended:
            return
        for _ in range(min(wanted, 1 + first) + second % 3):
            self.offered += 1
            self.records.positions[self.offered] = position = (self.offered // 7, f"p{self.offered}")
            self.controller.offer_record(position, "r" * (second % 50), self.now)

    def send(self, first: int, second: int) -> None:
        """Send the next pack, if there is one."""
        self.controller.records_wanted(self.now)
        self.look_for_stalls()
        self.try_send()

    def send_all(self, first: int, second: int) -> None:
        """Send all packs that can be sent."""
        self.controller.records_wanted(self.now)
        self.look_for_stalls()
        while self.try_send():
            pass

    def settle(self, first: int, second: int) -> None:
        """A task acks one of its packs."""
        at = self.at_tasks()
        if at:
            self.settle_one(at[first % len(at)])

    def settle_all(self, first: int, second: int) -> None:
        """One task acks all its packs at slightly different times."""
        task = pick(sorted(self.tasks), first)
        for delivery in [each for each in self.at_tasks() if each.window.task_id == task]:
            self.now += 0.0005 * (second % 8)
            self.settle_one(delivery)

    def ack(self, first: int, second: int) -> None:
        """A whole tree is acked, maybe before the task's own ack is known."""
        open_trees = list(self.deliveries)
        if open_trees:
            self.ack_tree(open_trees[first % len(open_trees)])

    def fail(self, first: int, second: int) -> None:
        """A record of the pack raises, or is failed."""
        self.fail_one(first, ERROR if second % 2 else FAILED)

    def time_out(self, first: int, second: int) -> None:
        """A pack times out at its task. Sometimes the task is unknown."""
        self.fail_one(first, TIMEOUT, knows_task=second % 4 > 0)

    def die(self, first: int, second: int) -> None:
        """The task of a pack dies."""
        self.fail_one(first, TASK_DIED)

    def fail_downstream(self, first: int, second: int) -> None:
        """Another task fails a tuple of the pack's tree."""
        open_trees = list(self.deliveries)
        if open_trees and self.random.randrange(self.calm) == 0:
            reason: FailureReason = pick((ERROR, FAILED, TIMEOUT, TASK_DIED), second)
            self.fail_tree(open_trees[first % len(open_trees)], Failure(reason, "sink", DOWNSTREAM))

    def wait(self, first: int, second: int) -> None:
        """A short time passes."""
        self.now += first * 0.0005 + second * 0.01

    def wait_long(self, first: int, second: int) -> None:
        """So much time passes that slow tasks count as stalled."""
        self.now += first * 0.2

    # Controller and model together

    def at_tasks(self) -> list[PackDelivery]:
        """Deliveries at their tasks, the oldest first."""
        return [each for each, model in self.deliveries.items() if each not in self.settled and model in self.there(each)]

    def there(self, delivery: PackDelivery) -> list[ModelDelivery]:
        """Return the deliveries that the model has at the task of a delivery."""
        return self.tasks[delivery.window.task_id].there

    def look_for_stalls(self) -> None:
        """Model: call back the packs of stalled tasks, at the same times as the controller."""
        if self.now < self.next_stall_look:
            return
        self.next_stall_look = self.now + STALL_SECS / 8
        for task in self.tasks.values():
            if task.there and self.now - task.head_began >= STALL_SECS:
                task.stalled(self.now)
                self.call_back(task)

    def call_back(self, task: ModelTask) -> None:
        for delivery in task.called_back(self.now):
            self.records.at_tasks.subtract(delivery.numbers)

    def try_send(self) -> bool:
        """Ask for a pack, and check the choice. Return whether there was one."""
        now, controller = self.now, self.controller
        due_again = controller.is_resend_due(now)  # the controller chooses which resends are due; the model checks that due ones go first
        room = [task for task, model in self.tasks.items() if model.has_room(now)]
        delivery = controller.next_delivery(now)
        if delivery is None:
            assert not (due_again and room), "a resend waits only for room"
            return False
        task = delivery.window.task_id
        numbers = range(delivery.pack.first, delivery.pack.last + 1)
        is_new = numbers.start == self.sent + 1
        assert is_new or numbers.stop <= self.sent + 1, "new records must be sent in order"
        is_again = not is_new and self.records.tries[numbers[0]] > 0
        if due_again and is_new:
            assert all(self.tasks[each].state == "BUSY" for each in room), "a resend must go first"
            assert self.probed_again, "a BUSY task must be probed alternately"
        if self.tasks[task].state == "BUSY":
            assert all(self.tasks[each].state == "BUSY" for each in room), "FC-4: a BUSY task gets a pack only if no other has room"
            self.probed_again = is_again
        if is_new:
            assert self.sent + len(numbers) - self.records.prefix <= self.settings.max_pending_records
            self.sent = numbers[-1]
        assert len(numbers) <= self.settings.pack_records
        assert task in room, "the task must have room"
        if is_new and self.settings.choice == "least_wait":
            busy, wait = self.tasks[task].rank(now)
            least_busy, least = min(self.tasks[each].rank(now) for each in room)
            assert busy == least_busy
            assert wait <= least + TOLERANCE
        for number in numbers:
            assert self.records.at_tasks[number] == 0, "a record was sent while it is outstanding"
            assert number not in self.records.done
        model = ModelDelivery(numbers, task, now, False)
        self.tasks[task].send(model)
        self.deliveries[delivery] = model
        self.records.open.update(numbers)
        self.records.at_tasks.update(numbers)
        return True

    def settle_one(self, delivery: PackDelivery) -> None:
        self.controller.note_task_ack(delivery, self.now)
        self.model_settle(delivery)

    def model_settle(self, delivery: PackDelivery) -> None:
        model = self.deliveries[delivery]
        if delivery not in self.settled and model in self.there(delivery):
            self.tasks[model.task].acked(model, self.now)
            self.records.at_tasks.subtract(model.numbers)
        self.settled.add(delivery)

    def ack_tree(self, delivery: PackDelivery) -> None:
        grown = self.controller.note_tree_ack(delivery, self.now)
        self.model_settle(delivery)
        model = self.end(delivery)
        before = self.records.prefix
        self.records.done.update(model.numbers)
        self.records.advance()
        assert grown == (self.records.prefix > before)

    def end(self, delivery: PackDelivery) -> ModelDelivery:
        """Close the tree of a delivery."""
        self.settled.discard(delivery)
        model = self.deliveries.pop(delivery)
        self.records.open.subtract(model.numbers)
        return model

    def fail_one(self, first: int, reason: FailureReason, *, knows_task: bool = True) -> None:
        """Fail a tree by its own task, which has not settled it."""
        open_trees = [delivery for delivery in self.deliveries if delivery not in self.settled]
        if open_trees and self.random.randrange(self.calm) == 0:
            delivery = open_trees[first % len(open_trees)]
            if reason in OF_RECORDS and self.random.random() < 0.7:
                delivery.payload = payload = Records([entry[1] for entry in delivery.pack.entries])
                payload.failed_index = self.random.randrange(len(payload))
            self.fail_tree(delivery, Failure(reason, "work", delivery.window.task_id if knows_task else None))

    def fail_tree(self, delivery: PackDelivery, failure: Failure) -> None:
        model, task = self.deliveries[delivery], self.tasks[delivery.window.task_id]
        was_there = delivery not in self.settled and model in task.there
        is_of_record = failure.reason in OF_RECORDS and failure.task_id == model.task
        is_alone = len(model.numbers) == 1
        given_up = self.controller.note_tree_failure(delivery, failure, self.now)
        if was_there:
            self.records.at_tasks.subtract(model.numbers)
            is_believed = task.state == "BUSY" or task.not_acked < 4
            if is_of_record and is_alone and self.records.tries[model.numbers[0]] and is_believed:
                task.failed_again(model, self.now)
                self.excuse(model.numbers[0], task)
            elif failure.task_id in (None, model.task):
                before = task.window
                task.failed(model, self.now)
                self.records.held.update(dict.fromkeys(model.numbers, Held(task, task.streak, before - task.window)))
                if failure.reason == TIMEOUT:
                    self.call_back(task)
            else:
                task.leaves(model, self.now)
        self.end(delivery)
        if not (delivery.was_called_back or self.records.done.issuperset(model.numbers) or failure.reason == TASK_DIED):
            self.count_tries(delivery, model, is_of_record=is_of_record)
        for position, *_ in given_up:
            number = next(number for number in model.numbers if self.records.positions[number] == position)
            assert self.settings.max_retries is not None
            assert self.records.at_tasks[number] == 0
            self.given_up.add(number)
            self.records.done.add(number)

    def count_tries(self, delivery: PackDelivery, model: ModelDelivery, *, is_of_record: bool) -> None:
        """Count a failure: of the record that the bolt names, or of all records of the pack."""
        failed_index = delivery.payload.failed_index if is_of_record and delivery.payload is not None else None
        failed = model.numbers if failed_index is None or len(model.numbers) == 1 else [model.numbers[failed_index]]
        self.records.tries.update(failed)
        for number in set(model.numbers).difference(failed):
            self.records.held.pop(number, None)

    def excuse(self, number: int, task: ModelTask) -> None:
        """Revoke a failure if the record fails at a second, healthier task too."""
        held = self.records.held.get(number)
        if held is not None and held.task is not task and task.state != "BUSY":
            held.task.excused(held)
            for each in [each for each, other in self.records.held.items() if other is held]:
                del self.records.held[each]

    # Checks after every step

    def compare(self) -> None:
        """Compare windows, states, records in flight, and the position."""
        assert (self.controller.prefix.done, self.controller.prefix.position) == self.records.advance(), "FC-6"
        assert self.controller.buffered_records == self.offered - self.sent
        for task_id, model in self.tasks.items():
            window = self.windows[task_id]
            assert (window.state, window.size) == (model.state, model.window), "FC-3"
            assert (window.in_flight, window.in_flight_records) == (len(model.there), model.records), "FC-2"
            assert 1 <= window.size <= max(self.settings.max_window, model.width)
            assert window.service_secs is None or abs(window.service_secs - (model.record_secs or 0)) < TOLERANCE
            assert abs(window.expected_wait(self.now) - model.wait(self.now)) < TOLERANCE * (1 + self.now), "FC-5"
