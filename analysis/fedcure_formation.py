"""How coalitions formed in runs of FedCure: figures, and pictures of the label distributions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from paper import Study, Trial, new_figure, save_figure
from simfl.measures.coalition_stability import coalition_counts, descent, stability
from simfl.pictures.colours import COLOURS
from simfl.runs.runfolder import LoadedRun


def edges_of_clients(run: LoadedRun) -> list[int]:
    """The edge server of each client, once coalitions have formed."""
    edges: list[int] = run.clients["edge"].tolist()
    return edges


def formation(run: LoadedRun) -> dict[str, float]:
    """How the mean JS divergence went, and how many single moves would still lower it."""
    path, end = descent(run), stability(run)
    assert path is not None and end is not None, "these scenarios associate clients by labels"
    return {
        "js_start": path.mean_js[0],
        "js_end": path.final_js,
        "switches": path.changes.size,
        "js_largest_change": path.changes.max() if path.changes.size else float("nan"),
        "improving_moves": end.improving,
    }


def draw_formation(study: Study, trials: list[Trial], name: str) -> None:
    """Of each rule's first seed on the first data set: shares of labels, and the mean JS."""
    first = [one for one in trials if one.data == trials[0].data and one.seed == 0]
    for trial in first:
        run = trial.run
        switches = run.details("associate")["switches"].iloc[0]
        figure, axes = new_figure(4)
        for axis, count in zip(axes, (0, len(switches) // 2, len(switches)), strict=False):
            _draw_labels(axis, run, switches[:count])
            axis.set_title(f"{trial.name}, {count} switches")
        path = descent(run)
        assert path is not None
        axes[3].plot(path.mean_js, color=COLOURS[0])
        axes[3].set(xlabel="switch", ylabel="mean JS divergence (nats)", ylim=(0, None))
        save_figure(figure, study.folder, f"{name}_{trial.name}")


def _draw_labels(axis: Axes, run: LoadedRun, switches: list[dict[str, int]]) -> None:
    """Stacked shares of the labels in each coalition after some switches."""
    edge = np.array(run.details("associate")["home_edges"].iloc[0])
    for one in switches:
        edge[one["client"]] = one["to"]
    counts = coalition_counts(np.stack(run.clients["label_counts"].tolist()), edge)
    shares = counts / counts.sum(axis=1, keepdims=True)
    bottom = np.zeros(len(shares))
    for label, share in enumerate(shares.T):
        shade = COLOURS[label % len(COLOURS)]
        hatch = "//" if label >= len(COLOURS) else None
        axis.bar(np.arange(len(shares)), share, bottom=bottom, color=shade, hatch=hatch)
        bottom += share
    axis.set(xlabel="coalition", ylabel="share of its examples, by label", ylim=(0, 1))
