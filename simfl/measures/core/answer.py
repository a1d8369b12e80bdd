"""The answer to a question about core stability."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.common.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Answer:
    """Whether a predictor is stable, by which margin, and by which method.

    `stable`: whether theta passes everything that `method` examines; None if undecided. `margin`:
    how far the tightest condition is from being violated, as a share of utilities; negative is
    violated. `blocked_by`: the agents of a coalition that blocks, empty if none was found.
    `predictor`: the flat vector theta' of that coalition, or of the tightest condition;
    `alternative`: its name if it has one. `tolerance`: differences up to this count as equal.
    `interval`: 90 % bootstrap interval of the margin over the agents' samples.
    """

    stable: bool | None
    margin: float
    method: str
    tolerance: float
    blocked_by: tuple[int, ...] = ()
    predictor: FloatArray | None = None
    alternative: str = ""
    interval: tuple[float, float] | None = None
