"""Lost messages, and the cost of sending them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.limits import MOST_S
from simfl.system.link_columns import LinkColumns


@dataclass(frozen=True)
class MessageLoss:
    """A sender without acknowledgement sends again, after growing timeouts; then it gives up.

    An attempt is lost with probability q, independently of others. After the i-th lost attempt the
    sender waits timeout_s * backoff^(i-1). With R + 1 = `attempts_max`, a message is never
    delivered with probability q^(R+1) and is sent (1 - q^(R+1)) / (1 - q) times on average.
    """

    probability: Annotated[
        float | None,
        ">= 0",
        "<= 1",
        "probability that an attempt is lost, on every link; null: each link's own",
    ] = None
    timeout_s: Annotated[float, ">= 0", "timeout before the first repetition"] = 1.0
    attempts_max: Annotated[int, ">= 1", "<= 100", "the most attempts for a message"] = 4
    backoff: Annotated[float, ">= 1", "<= 10", "factor on the timeout after each attempt"] = 2.0

    def __post_init__(self) -> None:
        longest_s = self.wait_s(self.attempts_max)
        if longest_s > MOST_S:
            raise ValueError(
                f"timeout_s: found {self.timeout_s:g}, but after {self.attempts_max} attempts a"
                f" sender waits {longest_s:g} s, accepted: at most {MOST_S:g}; lower timeout_s,"
                " backoff or attempts_max"
            )

    def on(self, links: LinkColumns) -> FloatArray:
        """The probability that an attempt is lost on each of some links."""
        own = links.loss_probability
        return own if self.probability is None else np.full_like(own, self.probability)

    def attempts(
        self, loss_probability: ArrayLike, uniform: ArrayLike
    ) -> tuple[IntArray, BoolArray]:
        """The number of attempts of each message, and whether all of them were lost; broadcasts.

        `loss_probability` is the link's own, `uniform` one draw per message: a larger probability
        never means fewer attempts.
        """
        own = loss_probability if self.probability is None else self.probability
        probability, draw = np.asarray(own, dtype=float), np.asarray(uniform, dtype=float)
        # P(more than k attempts) = q^k.
        lost_after = probability[..., None] ** np.arange(1, self.attempts_max + 1)
        lost = (draw[..., None] < lost_after).sum(axis=-1)
        return np.minimum(lost + 1, self.attempts_max), lost == self.attempts_max

    def wait_s(self, attempt: int) -> float:
        """The time for which the sender waits for an answer to its `attempt`-th attempt, from 1."""
        return self.timeout_s * self.backoff ** (attempt - 1)
