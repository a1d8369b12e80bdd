"""An association of one's own: every edge server gets a mix of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.plugins import Association, AssociationView, IntArray


@dataclass(frozen=True)
class MixedLabels(Association):
    """Clients, largest first, join the edge server that holds least of the labels they bring."""

    def decide(
        self, view: AssociationView, rng: np.random.Generator
    ) -> tuple[IntArray, dict[str, Any]]:
        """Ties go to the edge server with the fewest examples; there are no details to log."""
        held = np.zeros((len(view.edge_position_m), view.label_counts.shape[1]))
        edge = np.empty(view.clients.size, dtype=np.int64)
        for client in np.argsort(-view.num_examples, kind="stable"):
            brings = view.label_counts[client]
            edge[client] = np.lexsort((held.sum(axis=1), held @ brings))[0]
            held[edge[client]] += brings
        return edge, {}
