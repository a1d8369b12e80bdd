"""What the figures of shipped measures can be is declared, each of them."""

from __future__ import annotations

import ast
import inspect
import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from simfl.assembly import registry
from simfl.study.figures import bounds_of, is_yes_or_no
from simfl.study.kinds import KINDS, QUESTIONS, Kind
from simfl.study.means import mean_interval


def _figures(measure: str) -> Iterator[str]:
    """The keys of dictionaries that a measure's `compute`, `assess` or helpers of them return."""
    shipped = registry.shipped("measures", measure)
    assert shipped is not None
    module = ast.parse(inspect.getsource(sys.modules[shipped.__module__]))
    found = [
        one
        for one in ast.walk(module)
        if isinstance(one, ast.FunctionDef) and one.name in ("compute", "assess", "oscillation")
    ]
    for function in found:
        for one in ast.walk(function):
            if isinstance(one, ast.Dict):
                yield from (
                    key.value
                    for key in one.keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                )


@pytest.mark.parametrize("measure", registry.names("measures"))
def test_every_figure_is_declared(measure: str) -> None:
    """A figure that is missing would have an interval that goes beyond what it can be."""
    figures = set(_figures(measure))

    declared = set(KINDS[measure])
    assert figures <= declared
    of_questions = {one for one in declared if one.startswith(QUESTIONS)}
    rest = declared - figures - of_questions
    assert measure == "core_stability" or not declared - figures
    assert rest <= {"least_margin_possible"}


def test_declared_figures_stay_where_they_can_be() -> None:
    """Turns of a client: 0 and 1 had an interval from -5.9; a margin may be negative."""
    assert mean_interval(np.array([0.0, 1.0]), "participation.turns_min")[0] == 0.0
    assert bounds_of("estimation_error.mean_absolute_error_s") == (0.0, math.inf)
    assert bounds_of("estimation_error.mean_error_s") == (-math.inf, math.inf)
    assert bounds_of("core_stability.certificate_margin") == (-math.inf, math.inf)
    assert is_yes_or_no("core_stability.certificate_stable", np.ones(3))
    assert not is_yes_or_no("equity.worst", np.ones(3))


def test_kinds_are_told_apart() -> None:
    """A share and an answer have the same bounds, and other intervals."""
    assert len(set(Kind)) == 5
    assert Kind.SHARE.bounds == Kind.YES_OR_NO.bounds == (0.0, 1.0)
