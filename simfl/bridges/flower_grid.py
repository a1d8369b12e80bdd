"""Flower's `Grid` over simulated time: a ServerApp's interface to the simulated clients.

A message to a node is a client round (`protocols/exchanges.py`). The ClientApp is called when its
node begins, because its answer decides how long the round takes; the answer is handed over when the
simulated device would have sent it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from simfl.bridges.flower_app import (
    FIRST_STAGE,
    MESSAGE_UNAVAILABLE,
    RUN_ID,
    TRAINING_STAGE,
    addressed,
    client_of,
    has_model,
    model_digest,
    node_of,
    numbers,
    packed,
    refused,
    secure_stage,
    size_bytes,
)
from simfl.bridges.flower_values import Answer, AppFailed, AppValues
from simfl.bridges.polling import Polls
from simfl.common.arrays import IntArray
from simfl.common.quantity import quantity
from simfl.protocols.clock import Process
from simfl.protocols.deliveries import Delivered
from simfl.protocols.exchanges import Letter, LetterLoad
from simfl.protocols.program import Ended, Program, Steps
from simfl.protocols.run import Run

Found = TypeVar("Found")

NODES_FOR_FREE, PULLS_FOR_FREE = 3, 1
"""How often in a row a question may be asked with the same answer before simulated time moves on.

For nodes, each place in the server's code counts separately: a server that waits for nodes asks in
a loop, while an app, its strategy and others may each ask once or more before a round.
"""

MANY_SLEEPS = 1000
"""So many sleeps of the server in a row without any new message or reply are taken as they are."""

ALL_NODES_FOR_FREE = 20
"""The same if all nodes are present already: waiting would not change the answer."""


class FlowerLetter(Letter):
    """One of Flower's messages, in transit."""

    def __init__(
        self, message: Message, content: bytes, grid: SimulatedGrid, expires_s: float, number: int
    ) -> None:
        self.message = message
        self.content = content
        self.expires_s = expires_s
        self.number = number
        self.client = client_of(message, grid.clients)
        self.version, self.round_number = grid.version, grid.round_number
        self.kind = message.metadata.message_type
        stage = secure_stage(message.content)
        self.masked, self.keys_alone = stage == TRAINING_STAGE, stage not in (None, TRAINING_STAGE)
        self.trains = _trains(message) and not self.keys_alone
        self.id = message.metadata.message_id
        self.here = False
        self.ends_s = expires_s
        self.answer: Answer | None = None
        self._grid = grid

    def load(self) -> LetterLoad:
        """Let the client answer, since its answer decides what the round costs."""
        self.answer = answer = self._grid.answered(self)
        down_bytes, up_bytes = self._grid.bytes_of(self, answer)
        work = answer.work
        self._grid.check_memory(self, work.memory_bytes)
        return LetterLoad(
            down_bytes, up_bytes, work.examples, work.steps, work.model, work.memory_bytes
        )

    def computed(self, *, ended: bool) -> None:
        """The node only keeps the state of a computation that ended."""
        if ended and self.answer is not None:
            self._grid.states[self.client] = self.answer.state

    def arrived(self) -> None:
        """From now on the reply can be pulled."""
        self.here = True
        self.ends_s = self._grid.now_s


class SimulatedGrid(Grid):
    """The nodes are a run's clients; `sizes` are declared bytes, each way, by type of message."""

    def __init__(
        self,
        run: Run,
        program: Program,
        values: AppValues,
        sizes: Callable[[str], tuple[int | None, int | None]],
    ) -> None:
        self._simulated = run
        self._program = program
        self._began_in = Path.cwd()
        self._values = values
        self._sizes = sizes
        self._polls = Polls()
        self._sleeps, self._slept_from_s = 0, 0.0
        self._letters: dict[str, FlowerLetter] = {}
        self._posted: IntArray = np.zeros(run.world.num_clients, dtype=np.int64)
        self._sent = 0
        self._ref = values.at(0)
        self._fresh: list[FlowerLetter] = []
        self._models: set[bytes] = set()
        self._ever_sent: set[bytes] = set()
        self._made: Delivered | None = None
        self.states: dict[int, bytes] = {}
        self.round_number = -1

    # Called by Flower.

    def set_run(self, run: Any) -> None:
        """Does nothing: there is only one run."""

    @property
    def run(self) -> Any:
        """Flower's record of a run, reduced to its identifier."""
        return SimpleNamespace(run_id=RUN_ID)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """A message with these contents."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are present now."""
        question = ("nodes", *_places(sys._getframe(1)))
        found: list[int] = self._wait(
            lambda: self._polled(question, self._nodes_for_free(), self._nodes, np.inf, away=True)
        )
        return list(found)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages now; returns their identifiers."""
        all_of_them = self._checked(messages)
        found: list[str] = self._wait(lambda: self._pushed(all_of_them))
        return found

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies to these messages that have arrived."""
        wanted = list(dict.fromkeys(message_ids))
        found: list[Message] = self._wait(lambda: self._pulled(wanted))
        return found

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and wait for the replies, no longer than `timeout` simulated seconds."""
        all_of_them = self._checked(messages)
        limit_s = np.inf if timeout is None else float(timeout)
        found: list[Message] = self._wait(partial(self._exchanged, all_of_them, limit_s))
        return found

    def sleep(self, seconds: float) -> None:
        """The server sleeps for simulated seconds."""
        self._wait(partial(self._slept, seconds))

    def _wait(self, steps: Steps) -> Any:
        """Let the clock run through `steps` and return their result, in the folder of the run."""
        with chdir(self._began_in):
            return self._program.wait(steps)

    def _checked(self, messages: Iterable[Message]) -> list[Message]:
        """The messages, checked; raises to the server if one cannot be sent."""
        all_of_them = list(messages)
        for one in all_of_them:
            client_of(one, self.clients)
            if not one.has_content():
                raise ValueError("a message without content cannot be sent to a node")
        return all_of_them

    def present_nodes(self) -> list[int]:
        """The nodes that are present now, without moving time; for simfl's own code."""
        return self._nodes()

    # Called by letters.

    @property
    def clients(self) -> int:
        """The number of nodes, present or not."""
        return self._simulated.world.num_clients

    @property
    def version(self) -> int:
        """The version of the server's model."""
        return self._ref.version

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self._simulated.clock.now_s

    def answered(self, letter: FlowerLetter) -> Answer:
        """The answer of a letter's client."""
        number = int(self._posted[letter.client])
        self._posted[letter.client] += 1
        digest = hashlib.sha256(letter.content).hexdigest()
        state = self.states.get(letter.client, b"")
        return self._values.answer(letter.message, digest, letter.client, number, state)

    def bytes_of(self, letter: FlowerLetter, answer: Answer) -> tuple[int, int]:
        """Bytes down and up: those of the serialised messages, unless declared."""
        down_bytes, up_bytes = (None, None) if letter.keys_alone else self._sizes(letter.kind)
        if down_bytes is None:
            down_bytes = size_bytes(letter.message, len(letter.content))
        return down_bytes, answer.reply_bytes if up_bytes is None else up_bytes

    def check_memory(self, letter: FlowerLetter, needed_bytes: float) -> None:
        """Raises `AppFailed` for more memory than the device has, unless such rounds may fail."""
        world, clients = self._simulated.world, np.array([letter.client])
        (lacking_bytes,) = world.lacking(clients, np.array([needed_bytes])).tolist()
        if not lacking_bytes:
            return
        self._values.lacks(letter.client, lacking_bytes)
        if world.lacking_bytes is None:
            device = world.devices[world.device_index[letter.client]]
            raise AppFailed(
                f"a {letter.kind!r} message to client {letter.client} takes"
                f" {quantity(needed_bytes, 'B')} (weights, gradients, optimizer, largest batch),"
                f" more than {device.name} has, {quantity(needed_bytes - lacking_bytes, 'B')};"
                " accepted: smaller batches, a smaller model, or population.memory: drop"
            )

    # In simulated time.

    def finished(self) -> Process:
        """The server has ended: publish its last version."""
        has_new = not self._forget_discarded() and self._ref.version > 0
        self._forget_masked()
        # A model made of the last replies and not published yet is the one that was measured.
        another = has_new and self._made is None and self._values.measured()
        yield from self._aggregated(measured=another)
        yield from self._published()

    def _nodes(self) -> list[int]:
        there = np.flatnonzero(self._simulated.exchanges.there(self._simulated.all_clients))
        return [node_of(client) for client in there.tolist()]

    def _nodes_for_free(self) -> int:
        """How often a place in the code may ask for nodes before simulated time moves on."""
        return NODES_FOR_FREE if len(self._nodes()) < self.clients else ALL_NODES_FOR_FREE

    def _polled(
        self,
        question: tuple[Any, ...],
        free: int,
        look: Callable[[], Found],
        until_s: float,
        *,
        away: bool,
    ) -> Process:
        """The answer to a question; if it is repeated and nothing changed, simulated time moves
        on.
        """
        answer = look()
        if self._polls.stands_still(question, answer, free):
            clients = self._simulated.all_clients
            gone = clients[~self._simulated.exchanges.there(clients)] if away else clients[:0]
            wanted = f"other {question[0]}"
            if away:
                there = clients.size - gone.size
                wanted += f" than the {there} present; population.clients is {clients.size}"
            with self._simulated.clock.waiting("the ServerApp", wanted):
                yield from self._simulated.exchanges.change(until_s, gone)
            answer = look()
            self._polls.moved(question, answer, free)
        return answer

    def _pushed(self, messages: Sequence[Message]) -> Process:
        self._polls.changed()
        self._sleeps = 0
        self._forget_discarded()
        packages = {id(one.content): packed(one.content) for one in messages}
        models = {model_digest(one.content) for one in messages} - {b""}
        stages = {secure_stage(one.content) for one in messages if _trains(one)}
        if FIRST_STAGE in stages:
            self._forget_masked()
        elif TRAINING_STAGE in stages:
            self._values.model_made()  # earlier models are not part of the sum that is made now
        if models - self._models or FIRST_STAGE in stages:
            another = bool(self._ever_sent and models - self._ever_sent) and stages <= {None}
            yield from self._aggregated(measured=another and self._values.measured())
            self._models = models
            self._ever_sent |= models
        if stages & {None, FIRST_STAGE}:
            yield from self._published()
            self.round_number += 1
        letters = []
        for message in messages:
            content = packages[id(message.content)]
            self._sent += 1
            copied = addressed(message, content, self._sent)
            expires_s = self.now_s + float(message.metadata.ttl)
            letters.append(FlowerLetter(copied, content, self, expires_s, self._sent))
        self._letters.update({one.id: one for one in letters})
        self._simulated.exchanges.post(letters)
        return [one.id for one in letters]

    def _pulled(self, wanted: list[str]) -> Process:
        # In the order of their arrival: the app may keep their identifiers in a set, whose order
        # differs from process to process.
        known = [self._letters[one] for one in wanted if one in self._letters]
        expires_s = min((one.expires_s for one in known), default=np.inf)

        def ready() -> list[str]:
            now_s = self.now_s
            over = [one for one in known if one.here or one.expires_s <= now_s]
            return [one.id for one in sorted(over, key=lambda one: (one.ends_s, one.number))]

        question = ("replies", frozenset(wanted))
        found = yield from self._polled(question, PULLS_FOR_FREE, ready, expires_s, away=False)
        return self._handed_over([self._letters[one] for one in found])

    def _exchanged(self, messages: Sequence[Message], limit_s: float) -> Process:
        ids = yield from self._pushed(messages)
        letters = [self._letters[one] for one in ids]
        until_s = self.now_s + limit_s
        none: IntArray = np.zeros(0, dtype=np.int64)
        while True:
            waiting = [one for one in letters if not (one.here or one.expires_s <= self.now_s)]
            if not waiting or self.now_s >= until_s:
                break
            wake_s = min(until_s, *(one.expires_s for one in waiting))
            with self._simulated.clock.waiting("the ServerApp", f"{len(waiting)} replies"):
                yield from self._simulated.exchanges.change(wake_s, none)
        self._values.late(len(waiting), limit_s)
        there = [one for one in letters if one not in waiting]
        return self._handed_over(there)

    def _slept(self, seconds: float) -> Process:
        """Let time pass; a loop in which nothing changes sleeps longer and longer.

        A server that asks every second for an answer that takes a week need not ask each time:
        after `MANY_SLEEPS` sleeps it sleeps for a thousandth of all of them, or until an answer
        arrives. If it waits for no answer then, the clock runs to the next change of what it asks.
        """
        if self._letters or self._sleeps <= MANY_SLEEPS:
            self._polls.changed()  # it waits by itself
        began_s, none = self.now_s, np.zeros(0, dtype=np.int64)
        if self._sleeps == 0:
            self._slept_from_s = began_s
        self._sleeps += 1
        until_s = began_s + seconds
        while self.now_s < until_s:
            yield from self._simulated.exchanges.change(until_s, none)
        longer_s = began_s + (began_s - self._slept_from_s) / MANY_SLEEPS
        if self._sleeps > MANY_SLEEPS and longer_s > until_s:
            yield from self._simulated.exchanges.change(longer_s, none)

    def _handed_over(self, letters: Sequence[FlowerLetter]) -> list[Message]:
        """Replies for the server, which then holds the updates among them."""
        if letters:
            self._polls.changed()
            self._sleeps = 0
        replies = []
        for one in letters:
            del self._letters[one.id]
            if not one.here or one.answer is None:
                self._values.late(1, float(one.message.metadata.ttl))
                replies.append(refused(one.message, MESSAGE_UNAVAILABLE, "no reply in time"))
                continue
            reply = one.answer.reply
            replies.append(reply)
            if one.trains and reply.has_content() and (one.masked or has_model(reply.content)):
                self._fresh.append(one)
        self._measured(letters)
        return replies

    def _measured(self, letters: Sequence[FlowerLetter]) -> None:
        """The mean of the metrics that clients report, over those who report each; a strategy may
        replace it.
        """
        for origin in ("train", "evaluate"):
            said = [
                numbers(one.answer.reply.content)
                for one in letters
                if one.here
                and one.answer is not None
                and one.kind.partition(".")[0] == origin
                and one.answer.reply.has_content()
            ]
            means = {}
            for name in sorted({key for one in said for key in one} - {"num-examples"}):
                known = [(one.get("num-examples", 1.0), one[name]) for one in said if name in one]
                if whole := sum(weight for weight, _ in known):
                    means[name] = sum(weight * value for weight, value in known) / whole
            self._values.tell(origin, means)

    def _forget_discarded(self) -> bool:
        """Drop updates that a strategy made no model of, if so; they are in no version."""
        discarded = self._values.discarded()
        if discarded:
            self._values.left_out(len(self._fresh))
            self._fresh.clear()
        return discarded

    def _forget_masked(self) -> None:
        """Drop updates of a sum that was not unmasked for lack of shares; they are in no
        version.
        """
        if any(one.masked for one in self._fresh) and not self._values.model_made():
            self._values.left_out(len(self._fresh))
            self._fresh.clear()

    def _aggregated(self, *, measured: bool = False) -> Process:
        """The server has made a new model of the updates it holds, which takes time.

        If it holds none, another model of the same replies is a version only if it was `measured`.
        """
        letters, self._fresh = self._fresh, []
        if not letters and not measured:
            return
        sent = [self.bytes_of(one, one.answer)[1] for one in letters if one.answer]
        taken_in = Delivered(
            np.array([one.client for one in letters], dtype=np.int64),
            np.array([one.version for one in letters], dtype=np.int64),
            np.array(sent, dtype=np.int64),
            [],
            np.zeros(len(letters)),
            np.zeros(len(letters), dtype=np.int64),
        )
        before = self._made
        self._made = taken_in if before is None else Delivered.join([before, taken_in])
        self._ref = yield from self._simulated.aggregate(self._ref, taken_in, self.round_number)

    def _published(self) -> Process:
        """Publish the last version, with the metrics measured since then."""
        made, self._made = self._made, None
        if made is None:
            return
        staleness = made.staleness(self._ref.version - 1)
        over = self._simulated.publish(
            self._ref, self.round_number, made.clients.size, staleness=staleness
        )
        yield from ()
        if over:
            raise Ended


def _trains(message: Message) -> bool:
    return str(message.metadata.message_type).partition(".")[0] == "train"


def _places(frame: FrameType | None) -> list[tuple[str, int]]:
    """The call stack at a place in the code: file and line of each call."""
    found = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found
