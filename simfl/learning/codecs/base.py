"""The interface of every codec that acts on values."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from simfl.learning.parameters import Parameters


class ValueCodec(ABC):
    """Base of a codec's effect on values; its effect on message sizes is in `simfl.system`.

    With `error_feedback`, a client keeps the coding error of an upload, and adds it to its next one
    (Karimireddy, Rebjock, Stich, Jaggi, ICML 2019).
    """

    error_feedback: bool = False

    @abstractmethod
    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """The decoded `values`: the same names, shapes and types, in new tensors.

        A pure function of its arguments: randomness comes only from `generator`, the message's own
        generator on the CPU. `sent` is the number of values that the message was priced for, fewer
        than all if the algorithm sends a part; then exact zeros must stay zero, as the algorithm
        may have masked these values. A NaN or an infinity must not become finite.
        """
