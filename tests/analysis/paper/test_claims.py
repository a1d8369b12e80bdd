"""Claims are judged by the values, each kind by its own rule."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from paper.claims import check_claims, in_words, read_claims

CLAIMS = sorted((Path(__file__).parents[3] / "analysis" / "claims").glob("*.yaml"))


def values(**by_name: list[float]) -> pd.DataFrame:
    """Accuracies on MNIST by name, one per seed."""
    return pd.DataFrame(
        [
            ("mnist", name, seed, "accuracy", value)
            for name, accuracies in by_name.items()
            for seed, value in enumerate(accuracies)
        ],
        columns=["data", "name", "seed", "figure", "value"],
    )


def verdict(folder: Path, table: pd.DataFrame, **claim: object) -> pd.Series:
    """The only row about one claim on the exhibit t."""
    one = {"id": "it", "statement": "It is so.", "source": "here", "figure": "t", **claim}
    file = folder / "claims.yaml"
    file.write_text(yaml.safe_dump({"paper": "p", "claims": [one]}), encoding="utf-8")
    rows = check_claims(file, "t", table)
    assert len(rows) == 1
    return rows.iloc[0]


@pytest.mark.parametrize(
    ("better", "expected"),
    [
        ([0.90, 0.91, 0.92], "HOLDS"),
        ([0.72, 0.71, 0.73], "FAILS"),
        ([0.70, 0.80, 0.95], "UNDECIDED"),
        ([0.95], "UNDECIDED"),
    ],
)
def test_a_directional_claim_is_judged_by_its_interval(
    tmp_path: Path, better: list[float], expected: str
) -> None:
    """The 95 % interval of the paired difference on one side of the margin or not."""
    table = values(a=better, b=[0.70, 0.71, 0.69])

    row = verdict(
        tmp_path, table, kind="directional", metric="accuracy/a - accuracy/b", at_least=0.1
    )

    assert row["verdict"] == expected
    assert row["seeds"] == len(better)


def test_differences_are_of_the_same_seed(tmp_path: Path) -> None:
    """Seeds that differ much from one another do not blur a difference that is always the same."""
    table = values(a=[0.2, 0.5, 0.8], b=[0.1, 0.4, 0.7])

    row = verdict(
        tmp_path, table, kind="directional", metric="accuracy/a - accuracy/b", at_least=0.05
    )

    assert row["verdict"] == "HOLDS"
    assert row[["value", "low", "high"]].tolist() == pytest.approx([0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([0.0, 0.05], "HOLDS"),
        ([0.0, 0.06], "FAILS"),
        ([0.0, float("nan")], "UNDECIDED"),
        ([0.06, float("nan")], "FAILS"),
    ],
)
def test_one_seed_breaks_a_hard_claim(tmp_path: Path, measured: list[float], expected: str) -> None:
    """The mean does not excuse it; a value that could not be measured decides nothing."""
    row = verdict(tmp_path, values(a=measured), kind="hard", metric="accuracy/a", at_most=0.05)

    assert row["verdict"] == expected


def test_a_soft_claim_is_noted(tmp_path: Path) -> None:
    """It neither holds nor fails."""
    row = verdict(tmp_path, values(a=[0.1]), kind="soft", metric="accuracy/a", at_least=1.4)

    assert row["verdict"] == "NOTE"
    assert row["value"] == pytest.approx(0.1)


def test_a_claim_about_absent_data_is_skipped(tmp_path: Path) -> None:
    """It is listed, without a figure; of several data sets those at hand are judged."""
    claim = {"kind": "hard", "metric": "accuracy/a", "at_least": 0.0}

    absent = verdict(tmp_path, values(a=[0.1]), **claim, data=["svhn", "cifar10"])
    one_there = verdict(tmp_path, values(a=[0.1]), **claim, data=["svhn", "mnist"])

    assert absent[["verdict", "data"]].tolist() == ["SKIPPED", "svhn, cifar10"]
    assert one_there[["verdict", "data"]].tolist() == ["HOLDS", "mnist"]


def test_a_claim_without_a_margin_is_refused(tmp_path: Path) -> None:
    """It could not turn out false."""
    with pytest.raises(ValueError, match="it: give at_least or at_most"):
        verdict(tmp_path, values(a=[0.1]), kind="hard", metric="accuracy/a")


@pytest.mark.parametrize("file", CLAIMS, ids=lambda file: file.stem)
def test_the_shipped_claims_are_well_formed(file: Path) -> None:
    """Every claim has what is needed to judge it, and a unique name."""
    claims = read_claims(file)

    assert len({one["id"] for one in claims}) == len(claims) > 0
    for one in claims:
        assert {"statement", "source", "figure", "metric"} <= set(one)


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    """Not from minus to plus infinity; a share's interval of several stays in [0, 1]."""
    claim = {"kind": "directional", "metric": "accuracy/a", "at_least": 0.5}

    one = verdict(tmp_path, values(a=[0.97]), **claim)
    two = verdict(tmp_path, values(a=[0.97, 0.99]), **claim)

    assert one[["low", "high"]].isna().all()
    assert (one["verdict"], two["verdict"]) == ("UNDECIDED", "HOLDS")
    assert two["high"] == 1.0


@pytest.mark.parametrize(
    ("title", "other", "ends", "claimed", "expected", "value"),
    [
        # Two runs were ended after 2000 rounds: they need at least 1700 more than the others.
        ([None, None], [300, 310], {"title": [2000, 2000]}, {"at_most": 0}, "FAILS", 1695.0),
        ([None, None], [300, 310], {"title": [2000, 2000]}, {"at_least": 0}, "HOLDS", 1695.0),
        # At least 100 more is not known to be at most 200 more.
        ([None, 400], [300, 300], {"title": [400, 400]}, {"at_most": 200}, "UNDECIDED", 100.0),
        # The other one never got there: at most 1900 fewer.
        ([100, 110], [None, None], {"other": [2000, 2000]}, {"at_most": 0}, "HOLDS", -1895.0),
    ],
)
def test_a_run_that_was_ended_early_is_judged_by_its_bound(
    tmp_path: Path,
    title: list[float | None],
    other: list[float | None],
    ends: dict[str, list[float]],
    claimed: dict[str, float],
    expected: str,
    value: float,
) -> None:
    """What it had spent by its end is less than it would have needed."""
    rounds = {"title": title, "other": other}
    table = pd.DataFrame(
        [
            ("mnist", name, seed, figure, one)
            for figure, by_name in (("rounds", rounds), ("rounds_end", ends))
            for name, of_seeds in by_name.items()
            for seed, one in enumerate(of_seeds)
        ],
        columns=["data", "name", "seed", "figure", "value"],
    ).astype({"value": float})

    row = verdict(
        tmp_path, table, kind="directional", metric="rounds/title - rounds/other", **claimed
    )

    assert (row["verdict"], row["value"]) == (expected, value)
    told = in_words(pd.DataFrame([row])).iloc[0]
    assert told["value"] == f"{'>' if 'title' in ends else '<'} {value:.4g}"
    assert told["interval"].startswith("above" if "title" in ends else "below")


def test_bounds_to_either_side_tell_nothing(tmp_path: Path) -> None:
    """Neither run got there, so it is unknown which would have been first."""
    table = values(a=[float("nan")] * 2, b=[float("nan")] * 2)
    ends = values(a=[5.0, 6.0], b=[7.0, 8.0]).assign(figure="accuracy_end")

    row = verdict(
        tmp_path,
        pd.concat([table, ends]),
        kind="directional",
        metric="accuracy/a - accuracy/b",
        at_most=0,
    )

    assert row["verdict"] == "UNDECIDED" and row["side"] == 0
    assert pd.isna(row["value"])


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [({"at_most": 100}, "UNDECIDED"), ({"at_most": 50}, "FAILS"), ({"at_least": 30}, "HOLDS")],
)
def test_a_bound_breaks_a_hard_claim_only_on_its_own_side(
    tmp_path: Path, claimed: dict[str, float], expected: str
) -> None:
    """One run needs 40 rounds, one was ended after 60: it needs more, and nobody knows how many."""
    reached = values(a=[40.0, float("nan")]).assign(figure="rounds")
    ends = values(a=[40.0, 60.0]).assign(figure="rounds_end")

    row = verdict(tmp_path, pd.concat([reached, ends]), kind="hard", metric="rounds/a", **claimed)

    assert row["verdict"] == expected


def test_names_are_no_seeds(tmp_path: Path) -> None:
    """Three methods of one seed would look like three seeds."""
    with pytest.raises(ValueError, match="several values of a seed, accepted: FIGURE/NAME"):
        verdict(
            tmp_path, values(a=[0.1], b=[0.2]), kind="directional", metric="accuracy", at_least=0
        )
