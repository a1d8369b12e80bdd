"""Whether runs can be compared in what they learned, where codecs only size messages.

A run's `sized_only` names the codecs whose effect on values is not modelled. Where it differs, what
was learned differs by less than it would, and no difference means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from simfl.study.figures import is_learned

SIZED_ONLY = "sized_only"
"""The column of a study's table that names a run's codecs of this kind; \"\" is none."""

NOT_MODELLED = "not modelled"
"""What stands in place of a difference or a verdict."""

LEARNED_ENDS = ("accuracy reached", "loss reached", "plateau")
"""How the reason of a run begins that ended by what it had learned."""


def sized_only(table: pd.DataFrame) -> pd.Series[str]:
    """The column, empty texts where the table has none (it is not one of a study's runs)."""
    if SIZED_ONLY in table:
        return table[SIZED_ONLY].fillna("")
    return pd.Series("", index=table.index)


def goes_by_learning(runs: pd.DataFrame, metric: str) -> bool:
    """Whether a figure of these runs is learned, or some of them ended by what they had learned."""
    if is_learned(metric):
        return True
    return "reason" in runs and bool(
        runs["reason"].fillna("").astype(str).str.startswith(LEARNED_ENDS).any()
    )


def differ(runs: pd.DataFrame, metric: str) -> bool:
    """Whether a figure of these runs cannot be compared: what makes them differ is not modelled."""
    return sized_only(runs).nunique() > 1 and goes_by_learning(runs, metric)


def unmodelled_sentences(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """A sentence for the codecs that keep some of these figures from being compared, if any do."""
    asked = [metric for metric in metrics if differ(runs, metric)]
    if not asked:
        return []
    codecs = ", ".join(sorted({text for text in sized_only(runs) if text}))
    return [
        f"{NOT_MODELLED}: what {codecs} does to {', '.join(asked)}; it sizes messages only, and the"
        " figures are those of exact values"
    ]


def apart(first: dict[str, Any], other: dict[str, Any], metric: str) -> bool:
    """Whether a figure of two rows of runs cannot be compared."""
    return differ(pd.DataFrame([first, other]), metric)
