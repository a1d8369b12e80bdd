"""The interface of every codec that acts on values."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from simfl.learning.parameters import Parameters


class ValueCodec(ABC):
    """Base of what codecs do to values; what they make of sizes is the system room's matter.

    With `error_feedback` a client keeps what an upload could not say, and adds it to what its next
    one is to say (Karimireddy, Rebjock, Stich, Jaggi, ICML 2019).
    """

    error_feedback: bool = False

    @abstractmethod
    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """`values` as they are decoded: the same names, shapes and types, in new tensors.

        A pure function of its arguments: chance comes from `generator` (on the CPU, the message's
        own) alone. `sent` is how many of the values the message was priced for: less than all of
        them where an algorithm sends a part. What is exactly zero stays so: it may be a value that
        the algorithm masks. A NaN or an infinity must not become finite.
        """
