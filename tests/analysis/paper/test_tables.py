"""Cells of the papers' tables, of which some say how long something took."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from paper.tables import (
    COLUMNS,
    SAID_OF_FEWER,
    SAID_OF_SOME,
    across,
    mean_and_deviation,
    print_figures,
    print_table,
)


def values(**figures: list[float]) -> pd.DataFrame:
    """One method on MNIST, one value per seed."""
    return pd.DataFrame(
        [
            ("mnist", "game", seed, figure, value)
            for figure, by_seed in figures.items()
            for seed, value in enumerate(by_seed)
        ],
        columns=COLUMNS,
    )


def test_what_some_seeds_never_reached_has_no_mean(capsys: pytest.CaptureFixture[str]) -> None:
    """Two of three: their median with the third behind them. One of three: a bound."""
    missed = math.nan
    table = values(
        rounds=[24.0, 26.0, missed],
        rounds_end=[24.0, 26.0, 30.0],
        time_s=[2.0, missed, missed],
        time_s_end=[2.0, 3.0, 3.0],
        accuracy=[0.5, 0.6, 0.7],
    )

    print_figures(table, digits=1)
    print_table(table, "time_s")

    head, _, row, _, _, _, alone = capsys.readouterr().out.splitlines()[:7]
    assert [cell.strip() for cell in head.split("|")[1:-1]] == [
        "mnist",
        "rounds",
        "time_s",
        "accuracy",
    ]
    assert "median 26 (2/3)" in row and "> 3 (1/3)" in row and "0.6 ± 0.1" in row
    assert "> 3 (1/3)" in alone


def test_what_all_seeds_reached_has_a_mean(capsys: pytest.CaptureFixture[str]) -> None:
    """As any figure."""
    print_figures(values(rounds=[1.0, 3.0], rounds_end=[1.0, 3.0]), digits=1)

    assert "2.0 ± 1.4" in capsys.readouterr().out


def test_what_a_figure_had_at_the_end_is_no_column(capsys) -> None:
    """It stands in the cell of the figure; another name that ends alike is one of its own."""
    names = ["rounds", "rounds_end", "js_end"]
    rows = [("mnist", "fedcure", 0, name, 1.0) for name in names]

    print_figures(pd.DataFrame(rows, columns=["data", "name", "seed", "figure", "value"]))

    assert capsys.readouterr().out.splitlines()[0].split("|")[2:4] == [" rounds ", " js_end "]


def test_an_undefined_figure_is_that_of_the_seeds_that_have_it() -> None:
    """And says of how many."""
    nan = math.nan

    assert mean_and_deviation(np.array([1.0, nan, 3.0]), 1) == "2.0 ± 1.4 (2/3)"
    assert mean_and_deviation(np.array([nan, 3.0]), 1) == "3.0 (1/2)"
    assert mean_and_deviation(np.array([nan, nan]), 1) == "- (0/2)"


def test_a_mean_over_fewer_seeds_than_its_row_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed without such a figure has no row; this is explained once, below the table."""
    some = values(reward=[0.5, 0.5, 0.5], fairness=[20.0, 40.0])

    print_table(some, "fairness", digits=2)
    alone = capsys.readouterr().out
    print_table(some, "reward", digits=2)
    all_seeds = capsys.readouterr().out
    print_figures(some, digits=1)
    side_by_side = capsys.readouterr().out

    assert "| 30.00 ± 14.14 (2/3) |" in alone and alone.count(SAID_OF_SOME) == 1
    assert "| 0.50 ± 0.00 |" in all_seeds and SAID_OF_SOME not in all_seeds
    assert "| 0.5 ± 0.0 | 30.0 ± 14.1 (2/3) |" in side_by_side
    assert side_by_side.count(SAID_OF_SOME) == 1
    assert across(some, 1, ["fairness"]).to_numpy().tolist() == [["30.0 ± 14.1 (2/3)"]]


def test_a_cell_of_fewer_seeds_than_others_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Its mean is over other seeds than the row above; per data set, in both kinds of table."""
    game = values(accuracy=[0.5, 0.7, 0.9])
    few = values(accuracy=[0.8]).assign(name="few")
    elsewhere = values(accuracy=[0.4]).assign(data="digits")
    table = pd.concat([game, few, elsewhere], ignore_index=True)

    print_table(table, "accuracy")
    print_figures(table, 2)

    shown = capsys.readouterr().out
    assert (
        "| game     | 0.700 ± 0.200 | 0.400  |" in shown and "| few      | 0.800 [1]     |" in shown
    )
    assert "| game  | 0.70 ± 0.20 |" in shown and "| few   | 0.80 [1]    |" in shown
    assert "| game   | 0.40     |" in shown
    assert shown.count(SAID_OF_FEWER) == 2


def test_what_was_never_reached_is_not_undefined(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is a game without an end in a seed; a bound has its own wording."""
    print_figures(values(rounds=[24.0, math.nan], rounds_end=[24.0, 30.0], accuracy=[0.5] * 3))

    assert SAID_OF_SOME not in capsys.readouterr().out
