"""The rates of a processor for each kind of work."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Sustained floating-point operations per second of a training step, by kind of work.

    null stands for `efficiency` times `flops_per_s`; `embedding`, `update` and `kernels` then take
    no time.
    """

    convolution: Annotated[float | None, "> 0", "FLOP/s of convolutions, 1x1 ones too"] = None
    depthwise: Annotated[
        float | None, "> 0", "FLOP/s of convolutions with one input channel per group"
    ] = None
    dense: Annotated[
        float | None, "> 0", "FLOP/s of linear layers, attention and other matrix products"
    ] = None
    recurrent: Annotated[float | None, "> 0", "FLOP/s of LSTM, GRU and plain recurrent layers"] = (
        None
    )
    embedding: Annotated[
        float | None, "> 0", "two operations per entry of a table of tokens, in every step"
    ] = None
    update: Annotated[
        float | None, "> 0", "two operations per weight outside of such tables, in every step"
    ] = None
    kernels: Annotated[
        float | None, "> 0", "two more per weight of a convolution, in every step"
    ] = None

    def times(self, factor: float) -> Rates:
        """All rates multiplied by `factor`."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(self, **{name: rate and rate * factor for name, rate in named.items()})
