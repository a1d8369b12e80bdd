"""Certificates of coalition formation: falling potential and Nash stability.

Source: FedCure (arXiv 2511.10227), Eq. 3, Eq. 4 and Theorem 1, recomputed from the label counts in
the run folder. With a = (p + q) / 2,

    JS(p, q) = (sum p ln(p / a) + sum q ln(q / a)) / 2          nats
    potential = sum over all pairs of coalitions = C(M, 2) mean JS
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import rel_entr

from simfl.common.arrays import FloatArray, IntArray
from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun

TOLERANCE = 2e-12
"""A gain up to this size is rounding; clients switch for gains above 1e-12."""


@dataclass(frozen=True, eq=False)
class Descent:
    """The mean JS before the first switch and after each one, shape (switches + 1,).

    `potential` is the mean JS times C(M, 2), with M coalitions that have clients at that time.
    `final_js` is the mean JS of the run's partition, also for rules without switches. `log_error`
    is the largest difference between these and the run's log.
    """

    mean_js: FloatArray
    potential: FloatArray
    final_js: float
    log_error: float

    @property
    def changes(self) -> FloatArray:
        """Changes of the mean JS at each switch: all negative if it falls strictly."""
        return np.diff(self.mean_js)

    @property
    def rising(self) -> int:
        """Switches that did not lower the mean JS."""
        return int((self.changes >= 0).sum())


@dataclass(frozen=True)
class Stability:
    """All single moves out of a partition; none improves if it is Nash-stable.

    `moves` are examined; `improving` of them lower the mean JS; `best_change` is the lowest change
    of the mean JS by one of them (NaN without any).
    """

    moves: int
    improving: int
    best_change: float


def mean_js(counts: FloatArray) -> FloatArray:
    """Eq. 3 for label counts (..., coalitions, labels), none empty; 0 for a single coalition."""
    if counts.shape[-2] == 1:
        return np.zeros(counts.shape[:-2])
    shares = counts / counts.sum(axis=-1, keepdims=True)
    first, second = np.triu_indices(shares.shape[-2], k=1)
    p, q = shares[..., first, :], shares[..., second, :]
    a = (p + q) / 2.0
    divergence = (rel_entr(p, a) + rel_entr(q, a)).sum(axis=-1) / 2.0
    mean: FloatArray = divergence.mean(axis=-1)
    return mean


def descent(run: LoadedRun) -> Descent | None:
    """The formation replayed from the logged switches; None without an association."""
    row = _association(run)
    if row is None:
        return None
    label_counts = np.stack(run.clients["label_counts"].tolist())
    edge = np.array(row["home_edges"])
    trajectory, logged = [coalition_counts(label_counts, edge)], [row["js_home"]]
    for one in _switches(row):
        edge[one["client"]] = one["to"]
        trajectory.append(coalition_counts(label_counts, edge))
        logged.append(one["js_after"])
    # A user's own rule may leave a coalition empty, or fill an empty one.
    coalitions = np.array([counts.shape[0] for counts in trajectory])
    js = np.array([mean_js(counts) for counts in trajectory])
    final_js = float(mean_js(coalition_counts(label_counts, run.clients["edge"].to_numpy())))
    errors = np.append(js, final_js) - np.array([*logged, row["js"]])
    pairs = coalitions * (coalitions - 1) / 2
    return Descent(js, pairs * js, final_js, float(np.abs(errors).max()))


def stability(run: LoadedRun) -> Stability | None:
    """The single moves out of the run's partition; None without an association."""
    if _association(run) is None:
        return None
    clients = run.clients
    return stability_of(np.stack(clients["label_counts"].tolist()), clients["edge"].to_numpy())


def stability_of(label_counts: IntArray, edge: IntArray) -> Stability:
    """All N (M - 1) single moves of clients with `label_counts` (clients, labels).

    Clients alone in their coalition stay: an empty one has no label distribution.
    """
    place = np.unique(edge, return_inverse=True)[1]
    counts, sizes = coalition_counts(label_counts, place), np.bincount(place)
    here = mean_js(counts)
    # Clients of one coalition with equal counts have the same moves.
    kinds, repeats = np.unique(np.column_stack([place, label_counts]), axis=0, return_counts=True)
    changes, times = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    for kind, repeat in zip(kinds, repeats, strict=True):
        own, held = int(kind[0]), kind[1:]
        if sizes[own] == 1:
            continue
        targets = np.delete(np.arange(sizes.size), own)
        moved = np.repeat(counts[None], targets.size, axis=0)
        moved[:, own] -= held
        moved[np.arange(targets.size), targets] += held
        changes.append(mean_js(moved) - here)
        times.append(np.full(targets.size, repeat))
    change, time = np.concatenate(changes), np.concatenate(times)
    best = float(change.min()) if change.size else float("nan")
    return Stability(int(time.sum()), int(time[change < -TOLERANCE].sum()), best)


def coalition_counts(label_counts: IntArray, edge: IntArray) -> FloatArray:
    """Label counts per edge server that has clients, shape (M, labels)."""
    place = np.unique(edge, return_inverse=True)[1]
    counts = np.zeros((int(place.max()) + 1, label_counts.shape[1]))
    np.add.at(counts, place, label_counts)
    return counts


@dataclass(frozen=True)
class CoalitionStability(Measure):
    """Coalition formation: mean JS divergence (nats), and switches that violate the theory.

    The mean is over pairs of coalitions. Edge servers without clients are not coalitions, so their
    number before and after may differ.
    """

    learned: ClassVar[bool] = False

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """mean_js_before and _after, switches, rising_switches, moves_looked_at, improving_moves.

        Before: the population's assignment of clients; after: the run's association. In FedCure's
        formation no switch may increase the mean JS, and if it ended by itself no single move may
        improve it.
        """
        path, end = descent(run), stability(run)
        if path is None or end is None:
            return {}
        return {
            "mean_js_before": float(path.mean_js[0]),
            "mean_js_after": path.final_js,
            "switches": float(path.changes.size),
            "rising_switches": float(path.rising),
            "moves_looked_at": float(end.moves),
            "improving_moves": float(end.improving),
        }


def _association(run: LoadedRun) -> dict[str, Any] | None:
    """What the run logged about its association, if there are coalitions and labels to compare."""
    rows = run.details("associate")
    clients = run.clients
    if rows.empty or clients["edge"].nunique() < 2 or not len(clients["label_counts"].iloc[0]):
        return None
    return dict(rows.iloc[0])


def _switches(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The logged switches; rules without switches log none."""
    switches = row.get("switches")
    return switches if isinstance(switches, list) else []
