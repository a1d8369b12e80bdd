"""The board: a row of one's own, tables and fronts from recorded values, the picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import board
import numpy as np
import pandas as pd
import pytest

import simfl
from paper import results
from paper.results import read_results
from simfl.assembly import registry

ROOT = Path(__file__).parents[2]
ENDS = {"time_s": 3600.0, "client_energy_j": 1000.0, "bytes": 5e6}


def own_row() -> str:
    """The file that docs/board.md shows."""
    page = (ROOT / "docs" / "board.md").read_text(encoding="utf-8")
    return page.partition("<!-- mine.yaml -->\n```yaml\n")[2].partition("```")[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The row of the page at the smallest scale, recorded into a folder where FedAvg's row is."""
    folder = tmp_path_factory.mktemp("board")
    shutil.copy(ROOT / "docs" / "examples" / "clipped_average.py", folder)
    (folder / "mine.yaml").write_text(own_row(), encoding="utf-8")
    before = values(("FedAvg", 0, 0.5, 0.25, 100.0), data="digits", target=0.4)
    results.write_results(folder / "board.csv", "board", "smoke", before)
    asked = ["--with", str(folder / "mine.yaml"), "--scale", "smoke", "--data", "digits"]
    with pytest.MonkeyPatch.context() as patch:
        for module in ("board", "paper.command"):
            patch.setattr(f"{module}.RESULTS", folder)
        board.main([*asked, "--out", str(folder / "out"), "--record"])
    return folder


def test_a_row_of_ones_own_stands_beside_the_recorded_ones(made: Path) -> None:
    """Its run is the only one that is made, under the same recipe; its values are the run's."""
    (path,) = made.glob("out/smoke/runs/*")
    run = simfl.load_run(path)
    found = read_results(made / "board.csv")

    assert list(pd.unique(found["name"])) == ["FedAvg", "clipped average"]
    own = found[found["name"] == "clipped average"].set_index("figure")["value"]
    assert own["accuracy"] == run.rounds["accuracy"].dropna().iloc[-1]
    assert own["equity.worst"] == run.clients["served_accuracy"].min()
    assert own["client_energy_j"] == run.manifest["client_energy_j"]
    grams = run.clients["carbon_gco2"].sum()
    assert own["gco2_per_j"] * own["client_energy_j"] == pytest.approx(grams)
    algorithm = run.scenario["algorithm"]
    assert algorithm["clip"] == 0.5 and algorithm["local"]["batch_size"] == 20
    assert (made / "out" / "smoke" / "board.png").read_bytes().startswith(b"\x89PNG")


def values(
    *rows: tuple[str, int, float, float, float], data: str = "fashion_mnist", target: float = 0.7
) -> pd.DataFrame:
    """Recorded values: name, seed, accuracy, worst client, seconds to the target.

    A run spends a joule and ten kB a second; NaN seconds: it missed the target within the hour.
    """
    listed = []
    for name, seed, accuracy, worst, seconds in rows:
        figures = dict.fromkeys(board.MEASURED, 0.5) | ENDS | {"diverged": 0.0, "gco2_per_j": 1e-4}
        figures |= {"accuracy": accuracy, "equity.worst": worst}
        spent = (seconds, seconds, 1e4 * seconds)
        figures |= dict(zip(targets(target), spent, strict=True))
        listed += [(data, name, seed, key, value) for key, value in figures.items()]
    return pd.DataFrame(listed, columns=["data", "name", "seed", "figure", "value"])


def targets(accuracy: float) -> list[str]:
    """Columns of seconds, clients' joules and bytes."""
    units = {"time": "s", "client_energy": "j", "bytes": "b"}
    return [f"{one}_to_accuracy_{accuracy}_{unit}" for one, unit in units.items()]


@pytest.fixture
def few() -> pd.DataFrame:
    """A is better than B in everything, C is good for the worst off, D is quick but once bad."""
    return values(
        ("A", 0, 0.8, 0.4, 1000.0), ("A", 1, 0.82, 0.42, 1200.0),
        ("B", 0, 0.7, 0.3, 2000.0), ("B", 1, 0.72, 0.32, 2200.0),
        ("C", 0, 0.75, 0.6, 1800.0), ("C", 1, 0.77, 0.62, 1800.0),
        ("D", 0, 0.85, 0.7, 10.0), ("D", 1, 0.6, 0.2, np.nan),
    )  # fmt: skip


def test_rows_that_missed_the_target_have_a_bound_and_no_rank(few: pd.DataFrame) -> None:
    """The front is that of the means of those that always got there."""
    said = board.block(few, "fashion_mnist", "front")
    costs = board.block(few, "fashion_mnist", "costs").splitlines()

    assert said.startswith(
        "On the front of fashion_mnist: A, C. Not ranked, as seeds missed 0.7: D (1/2)."
    )
    (missed,) = (line for line in costs if line.startswith("| D"))
    assert "| > 1805" in missed and "| > 0.505" in missed and "| > 0.0505" in missed
    (best,) = (line for line in costs if line.startswith("| A"))
    assert best.split("|")[2].strip() == "2/2" and "| 0.11 (" in best and "| 11 (" in best


def test_the_best_accuracy_stands_first(few: pd.DataFrame) -> None:
    """With intervals over the seeds; what clients are served is a share, at most 1."""
    lines = board.block(few, "fashion_mnist", "learned").splitlines()

    assert [line[2] for line in lines[2:]] == ["A", "C", "D", "B"]
    assert "0.81 ±0.13" in lines[2]
    assert "| 0.7 (0.0 to 1.0) | 0.5 ±0     | 0.4 (0.0 to 1.0) |" in lines[4]


def test_rows_are_compared_by_the_seeds_that_all_of_them_have(few: pd.DataFrame) -> None:
    """A seed that one row lacks is left out of all of them, and no row is made up."""
    some = few[(few["name"] != "C") | (few["seed"] == 0)]

    table = board.wide(some, "fashion_mnist")

    assert list(zip(table["name"], table["seed"], strict=True)) == [(one, 0) for one in "ABCD"]
    assert "| D             | 1/1         | 10 " in board.block(some, "fashion_mnist", "costs")


def test_every_learning_algorithm_is_on_the_board_or_left_out_with_a_reason() -> None:
    """A new one has to be put on it."""
    rows = board.Rows.of(board.ROWS)
    run = {own.get("algorithm.name", "fedavg") for own in rows.keys.values()}
    out = {"fedbn", "fl_games", "none", "standalone"}

    assert run | out == set(registry.names("algorithms")) and not run & out
    assert len(rows.left_out) == len(out)


def test_a_row_that_there_is_not_is_refused() -> None:
    """With the names that there are."""
    with pytest.raises(SystemExit, match="found FedAwg; accepted: FedAvg, "):
        board.main(["--only", "FedAwg", "--scale", "smoke"])


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    """It says what it looks for."""
    file = tmp_path / "mine.yaml"
    file.write_text("name: fedavg\n")

    with pytest.raises(SystemExit, match="found no section 'algorithms'"):
        board.main(["--with", str(file), "--scale", "smoke"])
