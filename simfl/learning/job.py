"""Jobs and updates, exchanged between protocol and trainer.

A *job* is one client's local training in one round (`LocalJob` in trainer.py). Its result is a pure
function of the job (start weights, client data, recipe, the job's own seed, the memory of the
client's previous job); the clock has no part in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.learning.parameters import Parameters, all_finite
from simfl.learning.partial_work import PartialWork

ROUNDING = 1e-9
"""No additional epoch or step because of a rounding error."""


@dataclass(frozen=True)
class LocalTraining:
    """Local training of a client: the `algorithm.local` section of a scenario.

    At most one of `epochs`, `steps` and `share` is set; none means one epoch.
    """

    REPLACED_BY: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "epochs": ("steps", "share"),
        "steps": ("epochs", "share"),
        "share": ("epochs", "steps"),
    }

    epochs: Annotated[int | None, ">= 1", "passes over the client's data"] = None
    steps: Annotated[int | None, ">= 1", "mini-batch steps, instead of epochs"] = None
    share: Annotated[
        float | None, "> 0", "<= 1", "share of the client's mini-batches, instead of epochs"
    ] = None
    batch_size: Annotated[int | None, ">= 1", "examples per step; null: the whole shard"] = 32
    learning_rate: Annotated[float, "> 0"] = 0.01
    learning_rate_decay: Annotated[
        float, "> 0", "<= 1", "factor on the learning rate per version of the client's own server"
    ] = 1.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: Annotated[float, ">= 0", "< 1"] = 0.0
    weight_decay: Annotated[float, ">= 0"] = 0.0
    keep_optimizer: Annotated[bool, "keep the optimizer's state between a client's jobs"] = False
    partial: Annotated[
        PartialWork | None, "clients that do only part of this work; null: all do all of it"
    ] = None

    def __post_init__(self) -> None:
        given = [key for key in ("epochs", "steps", "share") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other; accepted: one of them")
        if self.optimizer == "adam" and self.momentum:
            raise ValueError("momentum belongs to sgd, adam has its own; accepted: 0")
        if self.partial is not None and self.share is None:
            self._check_parts(self.partial.least)

    def _check_parts(self, least: float) -> None:
        """Refuses a least share beyond which there is only the whole, as parts are rounded up."""
        whole, one = self.steps or self.epochs or 1, "step" if self.steps else "epoch"
        if whole < 2:
            raise ValueError(f"partial: one {one} has no part; accepted: more {one}s")
        if math.floor(least * whole + ROUNDING) + 1 >= whole:
            raise ValueError(
                f"partial.least: more than {least:g} of {whole} {one}s, rounded up, is all of them;"
                f" accepted: less than {1 - 1 / whole:.4g}, or more {one}s"
            )

    def parts(self, shares: FloatArray) -> Iterator[tuple[LocalTraining, IntArray]]:
        """The different parts that shares of this work make, with the places of their shares."""
        if self.share is None:
            whole = self.steps or self.epochs or 1
            shares = np.maximum(1.0, np.ceil(shares * whole - ROUNDING)) / whole
        for share in np.unique(shares).tolist():
            yield self.part(share), np.flatnonzero(shares == share)

    def amounts(
        self,
        shares: FloatArray,
        sizes: IntArray,
        of: Callable[[LocalTraining, IntArray], tuple[FloatArray, FloatArray]],
    ) -> tuple[FloatArray, FloatArray]:
        """`of(part, sizes)`, two figures for each size, where each share makes its own part."""
        first, second = np.empty((2, sizes.size))
        for part, places in self.parts(shares):
            first[places], second[places] = of(part, sizes[places])
        return first, second

    def part(self, share: float) -> LocalTraining:
        """A share of this work, in (0, 1]: rounded up to whole epochs or steps."""

        def some(whole: int | None) -> int | None:
            return None if whole is None else max(1, math.ceil(share * whole - ROUNDING))

        batches = None if self.share is None else share * self.share
        epochs, steps = some(self.epochs), some(self.steps)
        return replace(self, partial=None, epochs=epochs, steps=steps, share=batches)

    @property
    def idle_keys(self) -> dict[str, str]:
        """Keys of these settings that nothing reads, given the others, each with the reason."""
        if self.optimizer == "sgd" and not self.momentum:
            return {"keep_optimizer": "sgd without momentum has no state to keep"}
        return {}

    def at(self, version: int) -> LocalTraining:
        """These settings with the learning rate decayed to server version `version`."""
        if self.learning_rate_decay == 1.0:
            return self
        rate = self.learning_rate * self.learning_rate_decay**version
        return replace(self, learning_rate=rate, learning_rate_decay=1.0)

    def passes(self, num_examples: Any, smallest: int = 1) -> Any:
        """The number of passes over the local data, as a real number (array in, array out).

        `steps` counts batches, and the last batch of each pass may be short: whole passes, and then
        the remaining batches of one more. Of a pass that leaves its last batch out, because it has
        fewer than `smallest` rows, the others count: examples passed over, as a share of all.
        """
        rows = num_examples if self.batch_size is None else self.batch_size
        batches, all_rows = self.batches(num_examples, smallest), np.maximum(num_examples, 1)
        used = np.minimum(batches * rows, all_rows)
        if self.steps is not None:
            whole, rest = np.divmod(self.steps, np.maximum(batches, 1))
            return whole * (used / all_rows) + np.minimum(rest * rows, used) / all_rows
        if self.share is not None:
            steps = np.maximum(1, np.rint(self.share * num_examples / rows))
            return np.minimum(steps * rows, used) / all_rows
        return (self.epochs or 1) * (used / all_rows)

    def num_steps(self, num_examples: Any, smallest: int = 1) -> Any:
        """The number of mini-batches trained on, as a real number (array in, array out)."""
        if self.steps is not None:
            return self.steps + 0.0 * num_examples
        batches = self.batches(num_examples, smallest)
        if self.share is not None:
            rows = num_examples if self.batch_size is None else self.batch_size
            return np.minimum(np.maximum(1, np.rint(self.share * num_examples / rows)), batches)
        return (self.epochs or 1) * batches

    def batches(self, num_examples: Any, smallest: int = 1) -> Any:
        """The number of mini-batches in a pass over the local data (array in, array out).

        Batches of fewer than `smallest` rows are left out, as in training (`batches.plan_order`).
        """
        if self.batch_size is None:
            return 1.0 + 0.0 * num_examples
        full, rest = np.divmod(num_examples, self.batch_size)
        some = np.minimum(num_examples, 1)  # a run without learning may have clients of one row
        return 1.0 * np.maximum(full + (rest >= smallest), some)

    @property
    def optimizer_states(self) -> int:
        """The number of values that the optimizer keeps for each weight."""
        return 2 if self.optimizer == "adam" else int(self.momentum > 0)

    def counts_steps(self) -> bool:
        """Whether a round has a number of mini-batches, instead of passes over all data."""
        return self.steps is not None or self.share is not None


RecipeKind = Literal["train", "gradient"]


@dataclass(frozen=True)
class Recipe:
    """The local work of a client in one round.

    `kind` "train" runs `local` and returns trained tensors; "gradient" returns the mean gradient of
    the loss at the start weights, over the whole shard or, with `local.steps` or `local.share`,
    over that many mini-batches. `trainable` names the parameters that may change (None: all).
    `private` names the tensors (parameters or buffers) that stay with the client from round to
    round and are never part of a payload. `beside` names further tensors, not of the model, that
    are trained with it and stay with the client: a second model, for example. Their values before
    the client's first job are in `Brief.start`, later ones in `Memory.private`. `measure` names
    extra figures to return, out of `MEASURES`. `proximal` (mu) adds mu / 2 ||w - start||^2 to the
    loss, over the model's trained parameters, with the start as the client received it;
    `proximal_beside` does the same for tensors beside, named "<anything>/<parameter>", with the
    start of that parameter.
    """

    local: LocalTraining
    kind: RecipeKind = "train"
    trainable: frozenset[str] | None = None
    private: frozenset[str] = frozenset()
    measure: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    proximal: float = 0.0
    proximal_beside: float = 0.0

    @property
    def remembers(self) -> bool:
        """Whether a client keeps a memory for its next job."""
        return bool(self.stays) or self.local.keep_optimizer

    @cached_property
    def stays(self) -> frozenset[str]:
        """Names of the tensors that stay with the client and are never part of a payload."""
        return self.private | self.beside


MEASURES = frozenset({"loss_before"})
"""loss_before: mean loss of the start weights over the client's whole shard, before training."""


@dataclass(frozen=True)
class Price:
    """The cost of a round, in the system's units.

    `down_bytes` and `up_bytes` are the message sizes as float32 before the codec. `work` is the
    client's computation as a factor on plain training with the same recipe (a submodel costs less,
    an ensemble game more), `operations` additional computation, at the speed of training.
    """

    down_bytes: int
    up_bytes: int
    work: float = 1.0
    operations: float = 0.0


@dataclass(frozen=True)
class Prices:
    """The costs of rounds of several clients, one entry each (see `Price`)."""

    down_bytes: IntArray
    up_bytes: IntArray
    work: FloatArray
    operations: FloatArray

    @staticmethod
    def of(prices: Sequence[Price]) -> Prices:
        """Columns from single prices."""
        return Prices(
            np.array([price.down_bytes for price in prices], dtype=np.int64),
            np.array([price.up_bytes for price in prices], dtype=np.int64),
            np.array([price.work for price in prices], dtype=float),
            np.array([price.operations for price in prices], dtype=float),
        )


@dataclass(frozen=True)
class Brief:
    """The brief of one client for one round: values and their price.

    `own` are tensors of this client only (masks, indices, another model), which the algorithm's
    loss gets as `Minibatch.own`, with a leading job axis. `correction` is added, at every local
    step, to the gradient of the loss by the parameters that it names, before weight decay and
    momentum: SCAFFOLD's c - c_i. Both reach the trainer unchanged: no codec acts on them, and their
    cost is in `price`.
    """

    start: Parameters
    recipe: Recipe
    price: Price
    own: Parameters = field(default_factory=dict)
    correction: Parameters = field(default_factory=dict)


@dataclass(frozen=True)
class Memory:
    """A client's memory between its jobs: private tensors and the optimizer's state.

    `optimizer` maps "<buffer>/<parameter>" to a tensor; `optimizer_steps` counts Adam's steps.
    `residual` is the coding error of its uploads, if their codec has error feedback.
    """

    private: Parameters = field(default_factory=dict)
    optimizer: Parameters = field(default_factory=dict)
    optimizer_steps: int = 0
    residual: Parameters | None = None


@dataclass(frozen=True)
class Update:
    """The result of a client's round: its payload, and the memory that the client keeps.

    `payload` holds the trained tensors and BatchNorm statistics (kind "train") or the gradient
    (kind "gradient"), as the server has them behind a codec; private tensors are in `memory` only.
    `brief` is the server's: its start is what was sent, before any codec. `version` is the server
    version that the job started from, `staleness` the number of versions since. `steps` counts the
    local steps made, which may be fewer than the recipe's sizes suggest, because BatchNorm leaves
    out a batch of one row; a gradient job makes none.
    """

    client: int
    brief: Brief
    payload: Parameters
    memory: Memory
    num_examples: int
    version: int
    staleness: int = 0
    measures: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0

    @property
    def is_finite(self) -> bool:
        """Whether neither its tensors nor its measures hold a NaN or an infinity."""
        return all_finite(self.payload) and all(map(math.isfinite, self.measures.values()))

    @property
    def delta(self) -> Parameters:
        """`payload - start`: what local training changed."""
        start = self.brief.start
        return {name: tensor - start[name] for name, tensor in self.payload.items()}

    def rebased(
        self, weights: Parameters, share: float = 1.0, statistics: Collection[str] = ()
    ) -> Update:
        """This update as if it had been made from `weights`: payload = weights + share * delta.

        A gradient is scaled by `share`; tensors that cannot be scaled (step counters) are taken
        unchanged. Running `statistics`, by name, are mixed in with that share, because changes of
        old weights could add up to a negative variance.
        """
        payload = dict(self.payload)
        for name, tensor in self.payload.items():
            if not tensor.is_floating_point():
                continue
            if self.brief.recipe.kind == "gradient":
                payload[name] = share * tensor
            else:
                since = weights if name in statistics else self.brief.start
                payload[name] = weights[name] + share * (tensor - since[name])
        return replace(self, payload=payload, brief=replace(self.brief, start=weights))
