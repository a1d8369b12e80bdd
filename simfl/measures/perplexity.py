"""Perplexity, as for language models."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class Perplexity(Measure):
    """Perplexity: e to the mean test loss (nats); 1 is certainty.

    Random guessing has the number of classes. If the classes are tokens and the inputs the
    preceding tokens, it is the perplexity per token. Not for regressions.
    """

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """final and lowest over the evaluated versions; empty if no classes are learned."""
        if "loss" not in run.rounds or (losses := run.rounds["loss"].dropna()).empty:
            return {}
        if not _of_classes(run):
            return {}
        return {
            "final": _exponential(float(losses.iloc[-1])),
            "lowest": _exponential(float(losses.min())),
        }


def _of_classes(run: LoadedRun) -> bool:
    """Whether the loss is that of a classification, not a squared error."""
    if run.scenario["data"]["name"] == "sizes":  # a Flower app, which brings its own data
        return "accuracy" in run.rounds and bool(run.rounds["accuracy"].notna().any())
    # The accuracy does not distinguish them: a regression's is R^2.
    return len(run.clients["label_counts"].iloc[0]) > 0


def _exponential(loss: float) -> float:
    """e to the loss; infinite if it overflows."""
    return math.exp(loss) if loss < 700 else math.inf
