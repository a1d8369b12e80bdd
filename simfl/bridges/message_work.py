"""The work of an app's messages: declared by the user, or counted while the app computes.

simfl's machines are calibrated for models: an example in training counts as three forward passes of
the model (`TRAINING_FLOPS_PER_FORWARD`), in evaluation as one. A message is counted in these terms:
the exact number of rows that went through the app's model, times the model's work per row. torch's
actual operations (counted once per kind of message and model, or at every `recount_every`-th
message) are used instead if they are more than that or far less, or if the app trains only a part
of its weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Annotated

from simfl.common.model_work import STEP_KINDS, ModelWork
from simfl.learning.calls import Call, CallCounter
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD

MORE = 1.05
"""Counted operations replace the model's passes if they exceed them by this factor."""

FEWER = 0.5
"""The same if they are below this factor: no backward pass was made, although gradients were
enabled.
"""

NO_WORK = ModelWork(dense=1.0)
"""The work of a message without computation: no examples of any model."""

KEYS_ALONE = "secure_aggregation"
"""A kind of message: those of a secure aggregation that only exchange keys and shares."""

_ASKING = ("query", "get_parameters", "get_properties", KEYS_ALONE)
"""Kinds of messages that need no computing; the second and third belong to Flower's old API."""

_COUNTED = ("convolution", "depthwise", "dense")


class UnknownWork(ValueError):
    """The work of a message is unknown; the text says why."""


@dataclass(frozen=True)
class DeclaredWork:
    """The work of a kind of message, declared instead of counted: floating-point operations by
    kind.

    They are those of one example's forward pass, as in `ModelWork`. There are `passes` over
    `examples`, by default as many as the answer reports ("num-examples"), in batches of
    `batch_size` (null: all at once).
    """

    convolution: Annotated[float, ">= 0"] = 0.0
    depthwise: Annotated[float, ">= 0"] = 0.0
    dense: Annotated[float, ">= 0"] = 0.0
    recurrent: Annotated[float, ">= 0"] = 0.0
    embedding: Annotated[float, ">= 0", "per step"] = 0.0
    traffic_bytes: Annotated[float, ">= 0", "bytes of activations"] = 0.0
    recurrent_places: Annotated[float, ">= 0", "per step"] = 0.0
    update: Annotated[float, ">= 0", "per step"] = 0.0
    kernels: Annotated[float, ">= 0", "per step"] = 0.0
    passes: Annotated[float, ">= 0"] = 1.0
    examples: Annotated[float | None, ">= 0", "in each message; null: as its answer says"] = None
    batch_size: Annotated[int | None, ">= 1"] = None
    forward_only: Annotated[bool, "no backward pass, as in an evaluation"] = False

    def __post_init__(self) -> None:
        if not self.model.forward_flops > 0:
            raise ValueError(
                "a declared work needs operations: at least one of convolution, depthwise, dense"
                " and recurrent above 0"
            )

    @property
    def model(self) -> ModelWork:
        """The work of one example and of one step."""
        return ModelWork(**{one.name: getattr(self, one.name) for one in fields(ModelWork)})


@dataclass(frozen=True)
class Work:
    """The work of these numbers of examples and steps, for a model with this work.

    `memory_bytes` is the peak memory of training; 0 if nothing is trained or it is unknown.
    """

    examples: float
    steps: float
    model: ModelWork
    memory_bytes: float = 0.0


def declared(work: DeclaredWork, examples: float | None) -> Work:
    """The declared work of a message whose answer reports this many examples."""
    if work.examples is not None:
        examples = work.examples
    if examples is None:
        raise UnknownWork('its answer has no metric "num-examples", by which declared work goes')
    share = TRAINING_FLOPS_PER_FORWARD if work.forward_only else 1.0
    batches = 1.0 if work.batch_size is None else math.ceil(examples / work.batch_size)
    return Work(work.passes * examples / share, work.passes * batches / share, work.model)


NOTHING = Work(0.0, 0.0, NO_WORK)
"""The work of a message without computation."""


class MessageWork:
    """Counts messages by type; `declares` gives the declared work of types that have it."""

    def __init__(self, declares: Mapping[str, DeclaredWork], recount_every: int | None) -> None:
        self.declared = declares
        self.recount_every = recount_every
        self._counter = CallCounter()
        self._seen: dict[str, int] = {}
        self._wanted: set[str] = set()
        self._known: dict[tuple[str, tuple[str, ...]], ModelWork] = {}
        self._by_example: dict[str, ModelWork] = {}

    @contextmanager
    def watching(self, kind: str) -> Iterator[Call]:
        """Record what torch computes for a message of a kind, until the end of the block."""
        if kind in self.declared:
            yield Call()
            return
        seen = self._seen.get(kind, 0)
        self._seen[kind] = seen + 1
        again = self.recount_every is not None and seen % self.recount_every == 0
        operations = seen == 0 or again or kind in self._wanted
        self._wanted.discard(kind)
        with self._counter.watching(operations=operations) as call:
            yield call

    def of(self, kind: str, call: Call, examples: float | None, *, idle: bool = False) -> Work:
        """The work of such a message whose answer reports this many examples.

        `idle` says that the answer returns the model unchanged: the client skips a round.
        """
        if kind in self.declared:
            return declared(self.declared[kind], examples)
        rows, steps = _amounts(call)
        forms = tuple(sorted(call.passes))
        known = kind, forms
        if rows:
            if call.operations is not None:
                self._known[known] = self._effective(call, rows)
            elif known not in self._known:
                self._known[known] = self._model(call)
                self._wanted.add(kind)  # the operations of the next such message are counted
            model = self._known[known]
            if model.forward_flops:
                return Work(rows, steps, model, _held_bytes(call))
            if _asks(kind):
                return NOTHING
            raise UnknownWork("its torch modules multiply nothing (embeddings alone, say)")
        return self._without_model(kind, call, examples, idle)

    def broken_off(self, kind: str, call: Call) -> Work:
        """The work of such a message that was not answered, as far as it is known.

        It is not used for other messages, because it may have ended anywhere.
        """
        if kind in self.declared:
            return NOTHING
        if call.operations is not None and call.passes:
            self._wanted.add(kind)
        rows, steps = _amounts(call)
        known = kind, tuple(sorted(call.passes))
        try:
            model = self._known[known] if known in self._known else self._model(call)
        except UnknownWork:
            return NOTHING
        counts = rows and model.forward_flops
        return Work(rows, steps, model, _held_bytes(call)) if counts else NOTHING

    def declares(self, kind: str, examples: float | None) -> Work | None:
        """The declared work of such a message; None if it is counted."""
        return declared(self.declared[kind], examples) if kind in self.declared else None

    def learn(self, kind: str, forms: tuple[str, ...], model: ModelWork, *, looked: bool) -> None:
        """Record that another run counted such a message; `looked` says that it counted operations.

        Later messages are counted as if this run had counted that one, so a resumed run equals one
        that was never interrupted.
        """
        if kind in self.declared:
            return
        self._seen[kind] = self._seen.get(kind, 0) + 1
        known = kind, forms
        if looked:
            self._wanted.discard(kind)
        if not forms:
            if model != NO_WORK:
                self._by_example[kind] = model
            elif looked and not _asks(kind):
                self._wanted.add(kind)
        elif looked:
            self._known[known] = model
        elif known not in self._known:
            self._known[known] = model
            self._wanted.add(kind)

    def _without_model(self, kind: str, call: Call, examples: float | None, idle: bool) -> Work:
        """The work of a message in which no torch module was called."""
        operations = call.operations
        if operations is not None and any(operations.values()):
            if not examples:
                raise UnknownWork(
                    "it multiplies without a torch module, and its answer has no metric"
                    ' "num-examples" to divide by'
                )
            per_row = TRAINING_FLOPS_PER_FORWARD * examples
            self._by_example[kind] = ModelWork(
                **{one: operations[one] / per_row for one in _COUNTED}
            )
        if kind in self._by_example and not idle:
            return Work(examples or 0.0, 1.0, self._by_example[kind])
        if _asks(kind):
            return NOTHING
        if operations is not None:
            self._wanted.add(kind)  # it says nothing about other messages
        if idle or any(one == kind for one, _ in self._known):
            return NOTHING
        raise UnknownWork("it computes nothing with torch that could be counted")

    def _model(self, call: Call) -> ModelWork:
        """The mean work of a row in the call, from the modules' own passes."""
        works = {form: self._counter.work[form] for form in call.passes}
        unknown = [form.partition("[")[0] for form, work in works.items() if work is None]
        if unknown:
            raise UnknownWork(f"the module {unknown[0]} could not be walked")
        if len(works) == 1:
            (only,) = works.values()
            assert only is not None
            return only
        rows, steps = _amounts(call)
        total = dict.fromkeys((one.name for one in fields(ModelWork)), 0.0)
        for form, passes in call.passes.items():
            one_rows, one_steps = _amounts(Call({form: passes}))
            for name in total:
                of_steps = name in (*STEP_KINDS, "recurrent_places")
                share = one_steps / steps if of_steps else one_rows / rows
                total[name] += share * getattr(works[form], name)
        return ModelWork(**total)

    def _effective(self, call: Call, rows: float) -> ModelWork:
        """The work by the modules' passes, or by the operations if these differ too much."""
        assert call.operations is not None
        real = {
            kind: call.operations[kind] / (TRAINING_FLOPS_PER_FORWARD * rows) for kind in _COUNTED
        }
        try:
            model = self._model(call)
        except UnknownWork:
            if not sum(real.values()):
                raise
            return ModelWork(**real)
        if model.recurrent:  # operations show it as one, or as dense ones
            return model
        instead = {
            kind: flops
            for kind, flops in real.items()
            if flops > MORE * getattr(model, kind)
            or flops < (1.0 if call.frozen else FEWER) * getattr(model, kind)
        }
        return replace(model, **instead) if instead else model


def _asks(kind: str) -> bool:
    return kind.partition(".")[0] in _ASKING


def _amounts(call: Call) -> tuple[float, float]:
    """Examples and steps in units of training; evaluated ones count as a forward pass."""
    passes = call.passes.values()
    rows = sum(one.trained + one.looked / TRAINING_FLOPS_PER_FORWARD for one in passes)
    return rows, sum(one.steps + one.looks / TRAINING_FLOPS_PER_FORWARD for one in passes)


def _held_bytes(call: Call) -> float:
    """Peak memory of a call: a model, its gradients and rows, and the optimizers."""
    held_bytes = max(one.held_bytes for one in call.passes.values())
    return held_bytes + sum(call.optimizers.values()) if held_bytes else 0.0
