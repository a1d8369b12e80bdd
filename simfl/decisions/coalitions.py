"""Client coalitions, and the effect of each possible switch of a client.

Switches are evaluated incrementally: leaving changes one label distribution, joining another, and
all other pairs of coalitions stay the same. Evaluating all switches of a client costs M * M
divergences instead of M * C(M, 2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.divergence import coalition_counts, js_divergence, label_distribution


@dataclass(frozen=True, eq=False)
class Outlook:
    """The effect of a client's switch to each coalition; the entry of its own is staying.

    `mean_js` (M,): the mean divergence over all pairs, Eq. 3; `to_others` (M, M): each coalition's
    mean divergence to the others after the switch in that row.
    """

    mean_js: FloatArray
    to_others: FloatArray


class Coalitions:
    """A partition of the clients (mutable): M coalitions, none of them empty.

    Coalition i is edge server `edges[i]`; edge servers without clients are left out. `place` is
    each client's coalition, `sizes` the number of clients in each.
    """

    def __init__(self, label_counts: IntArray, edge: IntArray) -> None:
        self.edges, self.place = np.unique(edge, return_inverse=True)
        self.sizes = np.bincount(self.place)
        self._label_counts = label_counts.astype(float)
        self._counts = coalition_counts(label_counts, self.place)
        self._shares = label_distribution(self._counts)
        self._js = js_divergence(self._shares[:, None, :], self._shares[None, :, :])

    @property
    def edge(self) -> IntArray:
        """Each client's edge server."""
        return self.edges[self.place].astype(np.int64)

    @property
    def mean_js(self) -> float:
        """Eq. 3 of the present partition."""
        return float(self._js.sum() / self._pairs) if self._pairs else 0.0

    @property
    def counts(self) -> FloatArray:
        """Label counts per coalition, shape (M, labels)."""
        return self._counts

    @property
    def _pairs(self) -> int:
        """Ordered pairs of coalitions: 2 C(M, 2)."""
        return self.edges.size * (self.edges.size - 1)

    def joined(self, client: int) -> FloatArray:
        """Label distribution of each coalition with the client in it, shape (M, labels)."""
        counts = self._counts + self._label_counts[client]
        counts[self.place[client]] = self._counts[self.place[client]]
        return label_distribution(counts)

    def outlook(self, client: int) -> Outlook:
        """All switches of a client whose coalition does not become empty."""
        own, count = int(self.place[client]), self.edges.size
        totals = self._js.sum(axis=1)
        joined = self.joined(client)
        left = label_distribution(self._counts[own] - self._label_counts[client])
        to_joined = js_divergence(joined[:, None, :], self._shares[None, :, :])
        to_left = js_divergence(left, self._shares)
        between = js_divergence(joined, left)

        # Row m: after the switch to m. Pairs that touch neither coalition stay.
        after = totals - self._js[own] - self._js + to_left + to_joined
        here = np.arange(count)
        to_joined[here, here] = to_joined[:, own] = 0.0
        after[here, here] = to_joined.sum(axis=1) + between
        after[:, own] = to_left.sum() - to_left[own] - to_left + between
        after[own] = totals
        return Outlook(after.sum(axis=1) / max(self._pairs, 1), after / max(count - 1, 1))

    def switch(self, client: int, target: int) -> None:
        """Move a client to coalition `target`."""
        own = int(self.place[client])
        self.place[client] = target
        for coalition, sign in ((own, -1), (target, 1)):
            self.sizes[coalition] += sign
            self._counts[coalition] += sign * self._label_counts[client]
            self._shares[coalition] = label_distribution(self._counts[coalition])
        for coalition in (own, target):
            row = js_divergence(self._shares[coalition], self._shares)
            self._js[coalition] = self._js[:, coalition] = row
