"""Learned values of a Flower app: its clients' answers, and the figures of its versions.

The key of an answer covers everything that it was computed from (the app's source and run config,
seed, node, message number, node state, message, numeric platform). With a result store, it is
looked up before the ClientApp is called: a run that was killed continues, and if only hardware
changes, nothing is trained again.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from flwr.app import Message

from simfl.algorithms.base import ServerState, Work
from simfl.bridges.app_clock import AppClock
from simfl.bridges.app_folder import place_in
from simfl.bridges.files_read import FilesRead
from simfl.bridges.flower_app import (
    CLIENT_APP_RAISED,
    TRAINING_STAGE,
    FlowerApp,
    answered,
    has_model,
    model_digest,
    numbers,
    packed,
    platform,
    refused,
    secure_stage,
    size_bytes,
)
from simfl.bridges.message_work import KEYS_ALONE, MessageWork, UnknownWork
from simfl.bridges.message_work import Work as MessagesWork
from simfl.common.model_work import ModelWork
from simfl.common.notices import Notice, notice
from simfl.common.quantity import quantity
from simfl.protocols.deliveries import Delivered
from simfl.protocols.learned_values import Effort, ValueStore
from simfl.protocols.state_ref import StateRef
from simfl.protocols.timing_only import TimingOnly
from simfl.provenance.journal import make_key
from simfl.streams import Streams, process_generators

BYTES_PER_VALUE = 4

ORIGINS = ("server", "evaluate", "train")
"""Who measured a figure: the ServerApp, clients that evaluate, clients that train."""

WORDS = {"accuracy": ("accuracy", "acc", "accuracies"), "loss": ("loss", "losses")}
"""Names of the figures."""

WHERE = frozenset(
    {
        *("test", "val", "valid", "validation", "eval", "evaluate", "evaluation"),
        *("avg", "mean", "weighted", "global", "federated", "fed", "dist", "distributed"),
        *("server", "client", "clients", "cen", "central", "centralized", "centralised"),
    }
)
"""Other words in a name that only say where the figure was measured."""


BROKEN = 3
"""An app is broken if so many clients fail at a kind of message that has never worked."""

OF_A_GROUP = 5
"""Added to the rank of a group's figure, such as a strategy's `{"accuracy": {"mnist": 0.9}}`."""


class AppFailed(RuntimeError):
    """An app cannot continue; the text says where it failed."""


@dataclass(frozen=True)
class Answer:
    """A client's answer: the reply, its bytes, the client's state afterwards, and the work."""

    reply: Message
    reply_bytes: int
    state: bytes
    work: MessagesWork


@dataclass(frozen=True)
class Named:
    """Which metrics of an app are a version's accuracy and loss; None: found by name."""

    accuracy: str | None
    loss: str | None


class AppValues(TimingOnly):
    """The values of one run of an app.

    `open` sets the app. What `open_until_closed` holds is kept until the run ends, for whatever
    reason: a simulation that stalls or is stopped does not finish its processes.
    """

    def __init__(
        self,
        plain: TimingOnly,
        work: MessageWork,
        named: Named,
        streams: Streams,
        store: ValueStore | None,
        numeric: Mapping[str, Any],
    ) -> None:
        super().__init__(plain.network, plain.local, streams)
        self._work = work
        self._named = named
        self._streams = streams
        self._store = store
        self._numeric = sorted({**numeric, **platform()}.items(), key=str)
        self._clients = 0
        self._app: FlowerApp | None = None
        self.open_until_closed = ExitStack()
        self._seen_kinds: set[str] = set()
        self._files = FilesRead()
        self._counts = {"asked": 0, "trained": 0, "reused": 0}
        self._client_s = 0.0
        self._errors: list[str] = []
        self._failed: dict[str, set[int]] = {}
        self._lacking: dict[int, float] = {}
        self._doubts: dict[str, str] = {}
        self._heard: set[str] = set()
        self._found: set[str] = set()
        self._told: dict[str, dict[str, float]] = {}
        self._weights: Mapping[str, Any] = {}
        self._discarded = self._model_made = False
        self._secure_messages = self._unseen = self._left_out = self._late = 0
        self._longest_wait_s = 0.0
        self.answering = False
        self._clock: AppClock | None = None

    def open(self, app: FlowerApp, clients: int, clock: AppClock) -> None:
        """Use the answers of this app, with this many clients, whose code has this clock."""
        self._app, self._clients, self._clock = app, clients, clock
        self.open_until_closed.callback(app.close)

    @property
    def server_seed(self) -> int:
        """Seed of the random generators that the ServerApp uses."""
        return self._streams.seed("flower.server")

    def close(self) -> None:
        """Release the app."""
        self.open_until_closed.close()

    def answer(
        self, message: Message, digest: str, client: int, number: int, state: bytes
    ) -> Answer:
        """A client's answer to its `number`-th message, whose content has this `digest`."""
        assert self._app is not None
        kind = message.metadata.message_type
        key = make_key(
            "flower answer",
            self._app.source,
            sorted(self._app.run_config.items()),
            sorted(self._app.node_config.items()),
            self._streams.seed_value,
            (client, self._clients, number, kind, message.metadata.group_id),
            hashlib.sha256(state).hexdigest(),
            digest,
            self._work.recount_every,
            kind in self._work.declared,
            self._numeric,
        )
        self._counts["asked"] += 1
        stage = secure_stage(message.content)
        if stage is not None:
            self._secure_messages += 1
            kind = kind if stage == TRAINING_STAGE else f"{KEYS_ALONE}.{stage}"
        kept = None if self._store is None else self._store.get(key)
        if kept is None:
            kept = self._made(message, kind, client, number, state)
            if isinstance(kept, Answer):
                return kept
            if self._store is not None:
                self._store.put(key, kept)
        else:
            self._counts["reused"] += 1
            self._seen_kinds.add(kind)
            known = kind, tuple(kept["forms"]), ModelWork(*kept["model"])
            self._work.learn(*known, looked=kept["looked"])
        content = _bytes(kept["reply"])
        reply, work = answered(message, content), self._priced(kind, kept)
        if not work.examples and kind.partition(".")[0] == "train" and has_model(reply.content):
            self._unseen += not _brings_back(message, reply)
        return Answer(reply, size_bytes(reply, len(content)), _bytes(kept["state"]), work)

    def _made(
        self, message: Message, kind: str, client: int, number: int, state: bytes
    ) -> dict[str, Any] | Answer:
        """Have the ClientApp answer; returns the serialised reply and state and the work counted as
        `kind`.

        An error is returned as an `Answer`, and is not stored: it is computed again next time.
        """
        assert self._app is not None
        began = time.perf_counter()
        seed = self._streams.seed("flower.client", client, number)
        self.answering = True
        try:
            with generators(seed), self._files.listening(), self._work.watching(kind) as call:
                reply, after = self._app.call_client(message, client, self._clients, state)
        except (Exception, SystemExit) as error:  # an app may raise anything, or exit
            place = place_in(self._app.folder, error)
            if self._broken(kind, client):
                raise AppFailed(
                    f"the ClientApp failed at its first {kind!r} message: {place}"
                ) from error
            self._errors.append(f"client {client}: {place}")
            reason = f"{type(error)}:<'{error}'>"  # as Flower says it
            reply, after = refused(message, CLIENT_APP_RAISED, reason), state
            return Answer(reply, size_bytes(reply, 0), after, self._work.broken_off(kind, call))
        finally:
            self.answering = False
            self._client_s += time.perf_counter() - began
        self._seen_kinds.add(kind)
        self._counts["trained"] += 1
        if reply.has_error():
            code, reason = reply.error.code, reply.error.reason
            self._errors.append(f"client {client}: its own error {code}: {reason}")
            reply = refused(message, code, reason)
            return Answer(reply, size_bytes(reply, 0), after, self._work.broken_off(kind, call))
        examples, declines = numbers(reply.content).get("num-examples"), _declines(message, reply)
        if declines and examples is None:
            examples = 0.0
        try:
            idle = not call.passes and (declines or _brings_back(message, reply))
            work = self._work.of(kind, call, examples, idle=idle)
        except UnknownWork as error:
            declare = (
                f"declare it, as by --set protocol.work.{kind}.dense=1e6, the operations of an"
                " example's forward pass, and traffic_bytes and update, without which devices that"
                " were calibrated with these are several times too fast (docs/flower.md)"
            )
            say = f"have the answer say it, or declare protocol.work.{kind}.examples"
            advice = say if kind in self._work.declared else declare
            message = f"what a {kind!r} message takes is not known: {error}; {advice}"
            raise AppFailed(message) from error
        return {
            "reply": _tensor(packed(reply.content)),
            "state": _tensor(after),
            "forms": tuple(sorted(call.passes)),
            "looked": call.operations is not None,
            "examples": examples,
            "work": (work.examples, work.steps, work.memory_bytes),
            "model": tuple(getattr(work.model, one.name) for one in fields(ModelWork)),
        }

    def _broken(self, kind: str, client: int) -> bool:
        """Whether the app is broken: so many clients have failed at a kind that has never worked.

        Single ones may fail, wherever they are asked. In secure aggregation a dropout makes others
        fail.
        """
        failed = self._failed.setdefault(kind, set())
        failed.add(client)
        works = kind in self._seen_kinds or kind.startswith(KEYS_ALONE)
        return not works and len(failed) >= min(BROKEN, self._clients)

    def _priced(self, kind: str, kept: Mapping[str, Any]) -> MessagesWork:
        """The work of an answer: as counted when it was computed, or as declared now."""
        known = self._work.declares(kind, kept["examples"])
        if known is not None:
            return known
        examples, steps, memory_bytes = kept["work"]
        return MessagesWork(examples, steps, ModelWork(*kept["model"]), memory_bytes)

    # Figures of versions.

    def tell(self, origin: str, metrics: Mapping[str, float]) -> None:
        """Replaces the metrics that an origin has reported for the current version.

        An accuracy or loss with a plain name is kept if the new metrics have none: a strategy may
        aggregate metrics separately for several groups.
        """
        if metrics:
            before = self._told.get(origin, {})
            kept = {
                name: before[name]
                for figure in WORDS
                for name in _plain(before, figure)
                if not _plain(metrics, figure)
            }
            self._told[origin] = {**kept, **metrics}

    def measured(self) -> bool:
        """Whether the server has measured a model since the last version."""
        return bool(self._told.get("server"))

    def tell_model(self, weights: Mapping[str, Any] | None) -> None:
        """Sets the server's model, arrays by name; None if the server discarded its updates."""
        if weights is None:
            self._discarded = True
        else:
            self._weights, self._model_made = weights, True

    def discarded(self) -> bool:
        """Whether the server discarded its updates; True once per case."""
        said, self._discarded = self._discarded, False
        return said

    def left_out(self, updates: int) -> None:
        """Counts updates that are in no version, because the strategy made no model of them."""
        self._left_out += updates

    def late(self, messages: int, waited_s: float) -> None:
        """Counts messages whose replies the server did not wait for longer than `waited_s`."""
        if messages:
            self._late += messages
            self._longest_wait_s = max(self._longest_wait_s, waited_s)

    def model_made(self) -> bool:
        """Whether the strategy has made a model; True once per model."""
        said, self._model_made = self._model_made, False
        return said

    def at(self, version: int) -> StateRef:
        """The handle of a version; its value is the latest model reported by the strategy."""

        def weights() -> ServerState:
            tensors = {
                name: torch.from_numpy(np.array(one))
                for name, one in self._weights.items()
                if np.asarray(one).dtype.kind in "fiub"
            }
            return ServerState(tensors, version)

        return StateRef("", version, weights)

    def aggregate(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> StateRef:
        """The next version."""
        return self.at(ref.version + 1)

    def server_work(self, ref: StateRef, delivered: Delivered) -> Work:
        """The work of a plain mean: two operations per value; all models and one more are moved."""
        sizes = delivered.up_bytes.astype(float)
        received = float(sizes.sum())
        return Work(2.0 * received / BYTES_PER_VALUE, received + float(sizes.max(initial=0.0)))

    def evaluation(self, ref: StateRef, now_s: float) -> dict[str, Any] | None:
        """The metrics measured since the last version; returned once."""
        told, self._told = self._told, {}
        if not told:
            return None
        return {
            "accuracy": self._figure("accuracy", told, self._named.accuracy),
            "loss": self._figure("loss", told, self._named.loss),
            "metrics": {
                f"{origin}.{name}": value
                for origin, metrics in sorted(told.items())
                for name, value in sorted(metrics.items())
            },
        }

    def _figure(
        self, figure: str, told: Mapping[str, Mapping[str, float]], name: str | None
    ) -> float | None:
        """A version's accuracy or loss from the first origin that has it, by key or by name.

        Metrics reported during training describe models that are not a version; they are only used
        by key.
        """
        self._heard.update(f"{origin}.{one}" for origin, those in told.items() for one in those)
        for origin in ORIGINS if name is not None else ORIGINS[:2]:
            metrics = told.get(origin, {})
            known = [name] if name is not None and name in metrics else []
            called = _by_name(metrics, figure) if name is None else known
            if not called:
                continue
            value = metrics[called[0]]
            if not np.isfinite(value) and self._finite():
                self._found.add(figure)
                self._doubts[f"{figure} finite"] = (
                    f"{figure} ({called[0]} of {origin}) was {value}, though the model is finite:"
                    " a client without test data?"
                )
                return None
            self._found.add(figure)
            if len(called) > 1:
                others = ", ".join(called[1:])
                self._doubts[figure] = f"{figure} is {called[0]} of {origin}, not {others}"
            if figure == "accuracy" and value > 1.0:
                self._doubts["share"] = f"accuracy ({called[0]}) is no share: it was {value:.6g}"
            return value
        return None

    def _finite(self) -> bool:
        """Whether the server's model is known and finite."""
        arrays = [np.asarray(one) for one in self._weights.values()]
        return bool(arrays) and all(
            np.isfinite(one).all() for one in arrays if one.dtype.kind in "fc"
        )

    def _not_found(self) -> Iterator[str]:
        """Messages about requested metrics that nobody measured, and about metrics without an
        accuracy.
        """
        measured = ", ".join(sorted(self._heard)) or "none"
        for figure, name in (("accuracy", self._named.accuracy), ("loss", self._named.loss)):
            if name is not None and figure not in self._found:
                yield f"protocol.{figure} is {name!r}, no metric that was measured ({measured})"
        tested = dict.fromkeys((one for one in self._heard if not one.startswith("train.")), 0.0)
        trained = [one for one in self._heard if one.startswith("train.")]
        reported = sorted(_ranks(dict.fromkeys(trained, 0.0), "accuracy"))
        if not tested and reported and self._named.accuracy is None:
            key = reported[0].removeprefix("train.")
            yield (
                f"nobody evaluated a version: the column accuracy is empty; clients report"
                f" {', '.join(reported)} in training: --set protocol.accuracy={key}"
            )
        others = sorted(tested.keys() - _ranks(tested, "loss").keys())
        if others and self._named.accuracy is None and "accuracy" not in self._found:
            yield f"no metric is called an accuracy ({', '.join(others)}): the column is empty"

    @property
    def effort(self) -> Effort:
        """Messages answered, here or by another run."""
        asked, trained, reused = self._counts.values()
        return Effort(asked, trained, reused)

    def wall_s(self) -> dict[str, float]:
        """The time spent in ClientApps."""
        return {"training": self._client_s}

    def lacks(self, client: int, lacking_bytes: float) -> None:
        """Record that a message needs more memory than its device has."""
        self._lacking[client] = max(lacking_bytes, self._lacking.get(client, 0.0))

    def notices(self) -> list[Notice]:
        """Warnings about answers that were errors or exceed a device's memory, and about doubtful
        names.
        """
        found = []
        if self._errors:
            message = f"{len(self._errors)} messages were answered with an error; {self._errors[0]}"
            found.append(notice("client_errors", message, len(self._errors)))
        if self._secure_messages:
            message = (
                f"{self._secure_messages} messages belong to a secure aggregation (SecAgg+):"
                " their bytes and waiting are counted; making keys, shares and masks takes no time"
            )
            found.append(notice("masks_are_free", message, self._secure_messages))
        if self._left_out:
            message = (
                f"{self._left_out} updates arrived, but the strategy made no model of them then: no"
                " version counts them as participants, even if a later model uses them"
            )
            found.append(notice("left_out_updates", message, self._left_out))
        if self._late:
            message = (
                f"the server stopped waiting for replies to {self._late} message(s), after up to"
                f" {self._longest_wait_s:g} simulated seconds, and went on without them"
            )
            found.append(notice("late_replies", message, self._late))
        if self._unseen:
            message = (
                f"{self._unseen} 'train' messages were answered with a changed model, but without"
                " torch operations that could be counted: they took no time and no energy"
            )
            found.append(notice("uncounted_work", message, self._unseen))
        if self._clock is not None and self._clock.read_at is not None:
            slept = f", and slept for {self._clock.slept_s:g} s" if self._clock.slept_s else ""
            message = (
                f"the ClientApps read this machine's clock (first at {self._clock.read_at}){slept}:"
                " that is no time of a simulated device, and differs from run to run"
            )
            found.append(notice("machines_clock", message))
        if changed := sorted(self._files.changed):
            message = (
                f"the ClientApps read {len(changed)} files that had changed since they were read"
                f" before ({changed[0]}): a memory that no run resets and no reused answer restores"
            )
            found.append(notice("changing_files", message, len(changed)))
        doubts = [*self._doubts.values(), *self._not_found()]
        if doubts:
            found.append(notice("ambiguous_figures", "; ".join(doubts), len(doubts)))
        if self._lacking:
            message = (
                f"{len(self._lacking)} of {self._clients} nodes lack memory for a message that they"
                f" got, up to {quantity(max(self._lacking.values()), 'B')}: it was never answered"
            )
            found.append(notice("out_of_memory", message, len(self._lacking)))
        return found


def _by_name(metrics: Mapping[str, float], figure: str) -> list[str]:
    """The metrics whose names match best; several if none is better."""
    ranks = _ranks(metrics, figure)
    return [one for one, found in ranks.items() if found == min(ranks.values())]


def _plain(metrics: Mapping[str, float], figure: str) -> list[str]:
    """Metrics whose names consist of the figure's word and words of where it was measured."""
    return [one for one, found in _ranks(metrics, figure).items() if found <= 1]


def _ranks(metrics: Mapping[str, float], figure: str) -> dict[str, int]:
    """How well metrics' names match, 0 being the best; those that do not match are left out."""
    words = WORDS[figure]

    def rank(metric: str) -> int | None:
        whole, of_group, _ = metric.partition("[")
        if of_group:
            return None if (found := rank(whole)) is None else OF_A_GROUP + found
        parts = [one.lower() for one in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", metric)]
        plain = [one for one in parts if one not in WHERE]
        if len(plain) == 1 and plain[0] in words:
            return int(len(parts) > 1)
        if any(one in words for one in parts):
            return 2 + (parts[-1] not in words)
        return 4 if any(one.endswith(words) for one in parts) else None

    return {one: found for one in sorted(metrics) if (found := rank(one)) is not None}


def _declines(message: Message, reply: Message) -> bool:
    """Whether a client that should train answers without a model, masked or not."""
    trains = message.metadata.message_type.partition(".")[0] == "train"
    asked = trains and has_model(message.content) and secure_stage(message.content) is None
    return asked and not has_model(reply.content)


def _brings_back(message: Message, reply: Message) -> bool:
    """Whether a reply contains exactly the model that the message brought."""
    digest = model_digest(message.content)
    return bool(digest) and digest == model_digest(reply.content)


@contextmanager
def generators(seed: int) -> Iterator[None]:
    """Seeds Python's, numpy's and torch's generators; afterwards their states are restored."""
    with process_generators(seed), torch.random.fork_rng():
        # `torch.manual_seed` keeps a stack trace for every kind of accelerator that is absent.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed)
        yield


@contextmanager
def torch_settings() -> Iterator[None]:
    """Restores torch settings that an app may change for the whole process, for the next run in
    it.
    """
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


def _tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0)


def _bytes(kept: torch.Tensor) -> bytes:
    content: bytes = kept.numpy().tobytes()
    return content
