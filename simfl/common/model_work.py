"""The counted work of a model's training, as passed to processors.

`simfl.learning.work.count_work` counts it, processors (`simfl.system.processor`) convert it to
time.
"""

from __future__ import annotations

from dataclasses import dataclass

FORWARD_KINDS = ("convolution", "depthwise", "dense", "recurrent")
"""The kinds of an example's operations; a machine may have a different rate for each."""

KINDS = (*FORWARD_KINDS, "embedding")
"""The same, and the updates of embedding tables."""

STEP_KINDS = ("embedding", "update", "kernels")
"""The kinds of a step's operations that do not depend on the batch."""


@dataclass(frozen=True)
class ModelWork:
    """A model's work: per example of a forward pass, and per training step whatever its batch.

    Per example, where a multiply-add counts as two operations: `convolution` (including 1x1),
    without `depthwise`, which are convolutions with one input channel per group; `dense`: linear
    layers, attention and other matrix products; `recurrent`: LSTM, GRU and plain recurrent layers;
    and `traffic_bytes`: activations read and written, which are the inputs and outputs of every
    layer that contains no other layer, and of matrix products outside such layers, at 4 bytes per
    value.

    Per step: `embedding`, two operations per entry of the tables that are looked up, since a step
    updates all entries; `update`, two per other weight; `kernels`, two more per weight of a
    convolution, since frameworks rearrange it in each pass; and `recurrent_places`, the number of
    sequence positions that recurrent layers process one after the other, summed over layers and
    directions.
    """

    convolution: float = 0.0
    depthwise: float = 0.0
    dense: float = 0.0
    recurrent: float = 0.0
    embedding: float = 0.0
    traffic_bytes: float = 0.0
    recurrent_places: float = 0.0
    update: float = 0.0
    kernels: float = 0.0

    @property
    def forward_flops(self) -> float:
        """Floating-point operations of one example's forward pass, summed over all kinds."""
        return self.convolution + self.depthwise + self.dense + self.recurrent
