"""Some of many verdicts are luck: a sentence says so, and which of them are still certain."""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.study.comparisons import paired_differences
from simfl.study.multiple_comparisons import Compared, in_tables, of_verdicts


def _found(figures: np.ndarray) -> pd.DataFrame:
    """Comparisons of settings (settings, seeds) with the first one."""
    settings, seeds = figures.shape
    runs = pd.DataFrame(
        {
            "seed": [*range(seeds)] * settings,
            "rule": np.repeat(np.arange(settings), seeds),
            "time_s": figures.ravel(),
        }
    )
    return paired_differences(runs, "time_s", "rule", 0)


def test_of_many_alike_settings_some_is_told_apart_and_none_is_sure() -> None:
    """24 settings like their baseline, five seeds: a verdict in half of the studies, which Holm's
    procedure takes back in nine of ten of them."""
    rng = np.random.default_rng(0)
    told, sure = 0, 0
    for _ in range(150):
        found = _found(rng.normal(10.0, 1.0, (25, 5)))
        sentences = of_verdicts([Compared("time_s", "0", found)])
        told += bool(sentences)
        names = sentences[0].partition("in the tables): ")[2] if sentences else ""
        sure += bool(sentences) and len(names.split(", ")) < found["verdict"].isin(
            ["higher", "lower"]
        ).sum() + (not names)

    assert 60 <= told <= 100
    assert sure <= 14


def test_what_is_not_sure_is_named() -> None:
    """One setting is five deviations away, one three times its error: of four."""
    near = np.array([-0.9, 0.1, -0.2, 0.6, 0.4])
    base = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    figures = np.stack([base, base + near, base + 0.85 + near, base + 50.0 + near, base - near])

    (sentence,) = of_verdicts([Compared("time_s", "0", _found(figures))])

    assert sentence == (
        "4 verdicts of 95 % each, 2 of them higher or lower; for equal settings one in twenty"
        ' would be; by Holm\'s procedure for all together: not significant ("?" in the tables):'
        " time_s of 2"
    )
    shown = in_tables([Compared("time_s", "0", _found(figures))])
    assert shown == [["undecided", "higher?", "higher", "undecided"]]
    few = [Compared("time_s", "0", _found(figures[:4]))]  # three verdicts
    assert of_verdicts(few) == [] and in_tables(few) == [["undecided", "higher", "higher"]]
    assert (
        of_verdicts([Compared("time_s", "0", _found(figures[[0, 1, 1, 4, 4]]))]) == []
    )  # nothing is told
    (all_sure,) = of_verdicts([Compared("time_s", "0", _found(figures[[0, 3, 3, 3, 3]]))])
    assert all_sure.endswith("for all together: all of them are significant")


def test_verdicts_of_several_factors_keep_their_own() -> None:
    """Two factors with the same levels: the one that is certain does not carry the other."""
    near = np.array([-0.9, 0.1, -0.2, 0.6, 0.4])
    base = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    weak = _found(np.stack([base, base + 0.85 + near, base + near]))
    strong = _found(np.stack([base, base + 50.0 + near, base - near])).rename(
        columns={"rule": "codec"}
    )

    (sentence,) = of_verdicts([Compared("time_s", "0", weak), Compared("time_s", "0", strong)])

    assert "2 of them higher or lower" in sentence
    assert sentence.endswith('not significant ("?" in the tables): time_s of rule 1 against 0')
    shown = in_tables([Compared("time_s", "0", weak), Compared("time_s", "0", strong)])
    assert shown == [["higher?", "undecided"], ["higher", "undecided"]]
