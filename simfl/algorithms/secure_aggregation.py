"""Secure aggregation: FedAvg with a server that sees only the sum, and the cost of that.

Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal, Seth: Practical Secure
Aggregation for Privacy-Preserving Machine Learning, CCS 2017. With `neighbours` the sparse graph of
Bell, Bonawitz, Gascon, Lepoint, Raykova: Secure Single-Server Aggregation with (Poly)Logarithmic
Overhead, CCS 2020.

    n        clients of a round                                     `participants`
    k        clients that one shares masks and keys with, n - 1     `neighbours`
    m        values of a model                                      `network.size_bytes` / 4
    R        what masked values are counted modulo, n 2^b           `value_bits` is b
    a_K      bits of a public key, 256                              `KEY_BITS`
    a_S      bits of a secret's share, 256                          `KEY_BITS`

Learning is FedAvg's, because masks cancel in the sum; the protocol's cost is modelled. A client
sends its two keys, an encrypted share of two secrets to each neighbour, the masked model, and in
the end a share for each of them and itself; it receives keys, shares and a list of surviving
clients (rounds 0 to 3 of the protocol). With k = n - 1 that is the paper's 2 n a_K + (5 n - 4) a_S
+ n + m log2 R bits, which gives its published expansions: 1.73 times the plain vector of 2^20
values of 16 bits with 2^10 clients, 1.98 with 2^24 and 2^14. It makes k + 1 masks of m values each;
the server computes the survivors' masks again to remove them. A mask's value costs
`operations_per_value`: 100 is a software cipher at one operation per cycle (some 23 cycles a byte;
0.64 with AES instructions, that is 4 per value: Drucker, Gueron, Krasnov, Making AES great again,
2018).

Departures from the paper: 1. no client drops out between its rounds, so that no pairwise mask has
to be reconstructed; 2. values are not rounded to b bits.

Known limits: n is `participants`, by default all clients; if a selection or an edge server has
fewer clients in a round, their messages are priced too high (the warning `priced_for_more` says
so); the rounds' bytes are sent with the model's messages, so waiting between rounds is not
modelled; key agreements and secret sharing (n^2 small operations) are not counted; codecs only size
messages, and sparse values are not smaller once masked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

from simfl.algorithms.base import Trait, Unmodelled, Work
from simfl.algorithms.fedavg import FedAvg
from simfl.common.arrays import IntArray
from simfl.learning.job import Price
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE

KEY_BITS = 256
"""Bits of a public key, and of a share of a secret (the paper's a_K and a_S)."""


@dataclass(frozen=True)
class SecureAggregation(FedAvg):
    """Federated averaging under secure aggregation."""

    name: ClassVar[str] = "secure_aggregation"
    paper: ClassVar[str] = "CCS 2017"
    refusals: ClassVar[Mapping[Trait, str]] = {
        "takes_stale_updates": "masks cancel only among the clients of a single round",
    }
    min_updates: ClassVar[int] = 2
    uncoded: ClassVar[Mapping[Unmodelled, str]] = {
        "uplink": "the message is masked and looks like noise",
    }

    participants: Annotated[
        int | None,
        ">= 2",
        "n, clients of a round (per edge server, if there are any); null: the whole population",
    ] = None
    neighbours: Annotated[
        int | None, ">= 1", "k, neighbours that a client shares masks with; null: n - 1"
    ] = None
    value_bits: Annotated[int, ">= 1", "<= 32", "b, bits of a value before masking"] = 32
    operations_per_value: Annotated[
        float, ">= 0", "operations to make and add one value of a mask"
    ] = 100.0

    def check_clients(self, count: int) -> None:
        """Raises ValueError for more participants, or neighbours, than there are."""
        n = self.participants or count
        if n > count:
            raise ValueError(
                f"participants: found {n}, accepted: at most the {count} clients of the population"
            )
        if self.neighbours is not None and self.neighbours >= n:
            raise ValueError(
                f"neighbours: found {self.neighbours}, accepted: fewer than the {n} participants"
            )

    def among(self, count: int) -> Self:
        """Fills in n and k if they are left open."""
        n = self.participants or count
        return replace(self, participants=n, neighbours=self.neighbours or n - 1)

    @property
    def priced_for(self) -> int | None:
        """n."""
        return self.participants

    @property
    def _graph(self) -> tuple[int, int]:
        """n and k, for a known population."""
        if self.participants is None or self.neighbours is None:
            raise ValueError("participants: left open; call `among` first")
        return self.participants, self.neighbours

    def price(self, network: Network, client: int, version: int) -> Price:
        """The model and neighbours' keys and shares down; keys, shares and the masked model up."""
        n, k = self._graph
        values = network.size_bytes // BYTES_PER_VALUE
        ring_bits = math.ceil(math.log2(n * 2**self.value_bits))
        down_bits = 2 * k * KEY_BITS + 2 * k * KEY_BITS + n
        up_bits = 2 * KEY_BITS + 2 * k * KEY_BITS + values * ring_bits + (k + 1) * KEY_BITS
        return Price(
            down_bytes=network.size_bytes + math.ceil(down_bits / 8),
            up_bytes=math.ceil(up_bits / 8),
            operations=self.operations_per_value * (k + 1) * values,
        )

    def server_work(self, network: Network, version: int, up_bytes: IntArray) -> Work:
        """The sum, and each survivor's own mask once more."""
        values, clients = network.size_bytes // BYTES_PER_VALUE, len(up_bytes)
        masks = self.operations_per_value * clients * values
        received = float(up_bytes.sum())
        return Work(2.0 * clients * values + masks, received + network.size_bytes)
