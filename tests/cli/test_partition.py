"""`simfl partition`: a table and a picture of who has what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import yaml
from matplotlib.collections import PolyCollection
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.console.partition import SIGNS, bar, print_partition
from simfl.pictures.partition import draw_partition, label_colours
from tests.small import SMALL


def command(folder: Path, *arguments: object, **data: Any) -> Any:
    """What `simfl partition` prints of the small scenario with other data."""
    scenario = folder / "small.yaml"
    scenario.write_text(yaml.safe_dump({**SMALL, "data": {**SMALL["data"], **data}}))
    return CliRunner().invoke(app, ["partition", str(scenario), *map(str, arguments)])


def test_a_table_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client with its size, its labels and a bar; the picture is where it was asked for."""
    monkeypatch.setenv("COLUMNS", "100")
    picture = tmp_path / "clients.png"
    sizes = [100, 50, 20, 10, 10, 10, 10, 10]

    result = command(tmp_path, "-o", picture, partition={"name": "exact_sizes", "sizes": sizes})

    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert [(int(one[0]), int(one[1])) for one in cells] == list(enumerate(sizes))
    assert [len(one[3]) for one in cells] == [60, 30, 12, 6, 6, 6, 6, 6]
    assert all(len(set(one[3])) <= int(one[2]) <= 10 for one in cells)
    assert "a sign stands for about 1.67 examples of its label" in result.stdout
    assert "220 examples at 8 clients, 10 to 100 each" in result.stdout
    assert matplotlib.image.imread(picture).std() > 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["clients.png", "small.yaml"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"categorical": ["job"]}, "a column is not among the features"),
        ({"numeric": [], "categorical": ["job"]}, "2 columns are not among the features"),
        ({"categorical": ["job"], "leave_out": ["town"]}, None),
    ],
    ids=str,
)
def test_columns_that_nobody_named_are_told(
    tmp_path: Path, settings: dict[str, Any], named: str | None
) -> None:
    """By `simfl partition`, and by `simfl validate` as a warning of the run."""
    cells = "".join(f"{row},{'ab'[row % 2]},{'uv'[row % 2]},{'yn'[row % 2]}\n" for row in range(90))
    (tmp_path / "rows.csv").write_text("age,job,town,ill\n" + cells)
    table = {"name": "csv", "path": str(tmp_path / "rows.csv"), "label": "ill"}

    shown = command(tmp_path, partition="iid", **table, **settings)
    checked = CliRunner().invoke(app, ["validate", str(tmp_path / "small.yaml")])

    for result in (shown, checked):
        assert result.exit_code == 0, result.output
        told = [one for one in result.stdout.splitlines() if "among the features" in one]
        assert len(told) == (named is not None)
        assert all(one.startswith(f"warning: {named}") and "town" in one for one in told)


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    """With the key; and nothing is drawn."""
    wrong = command(tmp_path, "-o", tmp_path / "a.png", partition={"name": "exact_sizes"})
    other = command(tmp_path, "-o", tmp_path / "a.doc")

    assert wrong.exit_code == other.exit_code == 2
    assert "data.partition.sizes" in wrong.stderr and len(wrong.stderr.splitlines()) == 1
    assert "found '.doc', accepted: .pdf, .png, .svg" in other.stderr
    assert not list(tmp_path.glob("a.*"))


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    """Rounding adds up to the whole; of more labels than signs, neighbours share one."""
    assert bar(np.array([4, 0, 5, 1]), 1.0) == "0000222223"
    assert len(bar(np.array([1] * 30), 3.0)) == 10
    hundred = bar(np.ones(100, dtype=int), 1.0)
    assert len(hundred) == 100 and set(hundred) == set(SIGNS) and sorted(hundred) == list(hundred)


def test_labels_that_nobody_has_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten of them; more are counted."""
    counts = np.zeros((2, 15), dtype=int)
    counts[:, [0, 3]] = 4

    print_partition("few", counts.sum(axis=1), counts)
    print_partition("all", counts[:, :1].sum(axis=1), counts[:, :1])

    text = capsys.readouterr().out
    assert (
        "no client has an example of the labels 1, 2, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more" in text
    )
    assert text.count("no client has") == 1


def test_sizes_alone_and_many_clients(capsys: pytest.CaptureFixture[str]) -> None:
    """Where there are no labels, sizes are drawn; the table ends after a hundred clients."""
    print_partition("sizes", np.full(120, 7), np.zeros((120, 0), dtype=int))

    text = capsys.readouterr().out
    assert "840 examples at 120 clients, 7 to 7 each" in text and "label" not in text
    assert "│ =======" in text
    assert "and 20 more clients" in text and "│     99 │" in text and "│    100 │" not in text


@pytest.mark.parametrize(("clients", "labels"), [(100, 10), (3, 25), (2, 0)])
def test_bars_of_the_picture_are_the_counts(clients: int, labels: int) -> None:
    """One rectangle for every label that a client has, as high as there are examples of it, on top
    of those of the labels before."""
    counts = np.random.default_rng(1).integers(0, 5, (clients, labels))
    counts[:, :1] += 1
    examples = counts.sum(axis=1) if labels else np.array([5, 9])
    drawn = counts if labels else examples[:, None]

    axes = draw_partition("some", examples, counts).axes[0]

    tops, heights = np.zeros(drawn.shape), np.zeros(drawn.shape)
    bars = [one for one in axes.collections if isinstance(one, PolyCollection)]
    for label, one in enumerate(bars):
        for path in one.get_paths():
            x, y = path.vertices[:4].T
            heights[round(float(x.mean())), label] += np.ptp(y)
            tops[round(float(x.mean())), label] = y.max()
    assert heights == pytest.approx(drawn)
    assert tops[drawn > 0] == pytest.approx(drawn.cumsum(axis=1)[drawn > 0])
    assert len(set(label_colours(20))) == 20


def test_clients_and_labels_are_whole_numbers() -> None:
    """One client had eight ticks, from -0.6 on, and the scale of many labels began at -0.5."""
    alone = draw_partition("one", np.array([30]), np.full((1, 30), 1))
    alone.draw_without_rendering()
    axes, scale = alone.axes

    left, right = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if left <= tick <= right] == [0]
    assert scale.get_yticks().tolist() == list(range(0, 30, 3))
