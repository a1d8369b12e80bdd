"""The counted work of a model's training, as passed to processors.

`simfl.learning.work.count_work` counts, processors (`simfl.system.processor`) turn it into time.
"""

from __future__ import annotations

from dataclasses import dataclass

FORWARD_KINDS = ("convolution", "depthwise", "dense", "recurrent")
"""The kinds of an example's operations; a machine may do each at a rate of its own."""

KINDS = (*FORWARD_KINDS, "embedding")
"""Those and the updates of tables."""

STEP_KINDS = ("embedding", "update", "kernels")
"""The kinds of a step's operations, whatever its batch."""


@dataclass(frozen=True)
class ModelWork:
    """A model's work: of one example's forward pass, and what is the same for any batch.

    Of one example, a multiply-add counting two operations: `convolution` (1x1 ones, too) without
    those of one input channel per group, which are `depthwise`; `dense`, linear layers, attention
    and whatever else multiplies matrices; `recurrent`, LSTM, GRU and plain recurrent layers; and
    `traffic_bytes`, what layers read and write of activations: inputs and outputs of every layer
    without layers within, and of matrix products outside of such, at 4 bytes per value.

    Of one step, whatever its batch: `embedding`, two operations per entry of the tables that are
    looked up, all of which a step updates; `update`, two per other weight; `kernels`, two more per
    weight of a convolution, which frameworks lay out anew in each pass; and `recurrent_places`, the
    places that recurrent layers go through one after the other, summed over layers and directions.
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
        """Floating-point operations of one example's forward pass, of all kinds together."""
        return self.convolution + self.depthwise + self.dense + self.recurrent
