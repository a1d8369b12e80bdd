"""Tables of figures on terminals that are too narrow for them."""

from __future__ import annotations

from rich.console import Console

from simfl.console.tables import FigureTable

VARIANTS = ["random count=10", "frugal.py:Frugal count=10"]
METRICS = [f"energy_to_accuracy_0.{place:02}_j" for place in range(12)]


def cell(row: int, place: int) -> str:
    """A figure that is in one cell only."""
    return f"{185397 + 100 * row + place} ±{13668 + place}"


def shown(width: int) -> list[str]:
    """The lines of a table of twelve figures on a terminal so wide."""
    rows = [
        [name, *(cell(row, place) for place in range(len(METRICS)))]
        for row, name in enumerate(VARIANTS)
    ]
    console = Console(width=width)
    with console.capture() as captured:
        console.print(FigureTable("means", ["selection"], METRICS, rows), crop=False)
    return captured.get().splitlines()


def test_what_does_not_fit_is_printed_in_parts() -> None:
    """Each with the variants; every figure is there once, and whole."""
    lines = shown(80)

    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    parts = text.count("┏")
    assert 1 < parts < len(METRICS)
    assert text.count("means") == 1
    assert all(text.count(f"│ {name} ") == parts for name in VARIANTS)
    for place in range(len(METRICS)):
        assert text.count(f" 0.{place:02}_j ") == 1
        assert all(text.count(f" {cell(row, place)} ") == 1 for row in range(len(VARIANTS)))


def test_a_figure_is_whole_on_the_narrowest_terminal() -> None:
    """The line is longer than the terminal then; a part has one figure."""
    text = "\n".join(shown(20))

    assert text.count("┏") == len(METRICS)
    for place in range(len(METRICS)):
        assert all(f" {cell(row, place)} " in text for row in range(len(VARIANTS)))


def test_a_table_that_fits_is_one() -> None:
    """As wide as its text."""
    assert "\n".join(shown(300)).count("┏") == 1
