"""Notes printed with figures of the shipped measures: what they do not mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_A_SEARCH = (
    "a lower bound, from the responses that a search finds: the true gap may be larger; use more"
    " `steps` to check"
)

FIGURE_NOTES: Mapping[str, str] = {
    "efficiency.efficiency_gap_bound": (
        "shown, not certified: the proof of Theorem 4 has a step (Eq. 42) in the wrong direction,"
        " and a gap above it breaks no law"
    ),
    "nash_gap.nash_gap": _A_SEARCH,
    "nash_gap.nash_gap_mean": _A_SEARCH,
}
"""`measure.figure` -> what a reader would not guess from its name."""


def figure_notes(metrics: Iterable[str]) -> list[str]:
    """The notes on these figures, one sentence each."""
    asked: dict[str, list[str]] = {}
    for metric in metrics:
        if metric in FIGURE_NOTES:
            asked.setdefault(FIGURE_NOTES[metric], []).append(metric)
    return [f"{', '.join(named)}: {what}" for what, named in asked.items()]
