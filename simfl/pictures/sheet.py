"""A sheet of panels as a picture, drawn with Pillow.

It is the picture that every run writes: loading matplotlib and drawing four panels with it takes
longer than a whole small run. Pictures on request are drawn with matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from simfl.common.arrays import FloatArray
from simfl.pictures.panels import Axis, Bars, Line, Panel

WIDTH, HEIGHT = 1100, 750
FINER = 2
"""Shapes are drawn this much larger and then scaled down, which smooths their edges."""

TEXT, SMALL, LARGE = 14, 11, 17
"""Heights of letters in pixels: ticks and labels, legends, titles."""

GAP, TICK, SWATCH = 8, 4, 13
LEGEND_ROW, TITLE_ROW = 18, 26
INK, GRID = "#000000", "#E4E4E4"
MOST_MARKED = 1000
"""On a line of more points, single points cannot be distinguished."""


@dataclass(frozen=True)
class Frame:
    """Where a panel's axes lie, in pixels from the sheet's upper left corner."""

    panel: Panel
    left: float
    top: float
    right: float
    bottom: float

    def across(self, places: FloatArray | float) -> FloatArray:
        """x coordinates in pixels of values on the x axis."""
        axis = self.panel.x
        share = (np.asarray(places) - axis.low) / (axis.high - axis.low)
        return self.left + (self.right - self.left) * share

    def down(self, places: FloatArray | float) -> FloatArray:
        """y coordinates in pixels of values on the y axis."""
        axis = self.panel.y
        share = (np.asarray(places) - axis.low) / (axis.high - axis.low)
        return self.bottom - (self.bottom - self.top) * share

    def legend(self) -> Iterator[tuple[float, float, str, str]]:
        """Left end, middle, text and colour of the legend's entries, above the axes."""
        rows = _rows(self.panel.legend, self.right - self.left)
        for index, row in enumerate(rows):
            place = (self.left + self.right - sum(_entry_width(text) for text, _ in row)) / 2
            middle = self.top - LEGEND_ROW * (len(rows) - index - 0.5)
            for text, colour in row:
                yield place, middle, text, colour
                place += _entry_width(text)

    @property
    def title_middle(self) -> float:
        """The y coordinate of the title, which lies above the legend."""
        rows = _rows(self.panel.legend, self.right - self.left)
        return self.top - LEGEND_ROW * len(rows) - TITLE_ROW / 2


def frames(grid: Sequence[Sequence[Panel]]) -> list[Frame]:
    """Rows of panels with room for their texts; axes in one column have the same length."""
    columns = list(zip(*grid, strict=True))
    lefts = [max(_beside(panel.y) for panel in column) for column in columns]
    rights = [max(_beyond(panel.x) for panel in column) for column in columns]
    width = (WIDTH - sum(lefts) - sum(rights)) / len(columns)
    tops = [max(_above(panel, width) for panel in row) for row in grid]
    below = TICK + GAP + 2 * TEXT + GAP
    height = (HEIGHT - TITLE_ROW - sum(tops) - below * len(grid)) / len(grid)
    found, top = [], float(TITLE_ROW)
    for row, above in zip(grid, tops, strict=True):
        top, left = top + above, 0.0
        for panel, before, after in zip(row, lefts, rights, strict=True):
            left += before
            found.append(Frame(panel, left, top, left + width, top + height))
            left += width + after
        top += height + below
    return found


def draw_sheet(grid: Sequence[Sequence[Panel]], title: str) -> Image.Image:
    """Rows of panels below a title."""
    placed = frames(grid)
    large = Image.new("RGB", (WIDTH * FINER, HEIGHT * FINER), "white")
    pen = ImageDraw.Draw(large)
    for frame in placed:
        _draw_shapes(pen, frame)
    sheet = large.reduce(FINER)
    pen = ImageDraw.Draw(sheet)
    shown = fitting(title, WIDTH - 2 * GAP, LARGE)
    pen.text((WIDTH / 2, TITLE_ROW / 2), shown, INK, _font(LARGE), anchor="mm")
    for frame in placed:
        _draw_texts(sheet, pen, frame)
    return sheet


def _draw_shapes(pen: ImageDraw.ImageDraw, frame: Frame) -> None:
    """Everything except texts; rectangles end a pixel before their right and lower ends."""
    panel = frame.panel
    left, top, right, bottom = (
        round(FINER * side) for side in (frame.left, frame.top, frame.right, frame.bottom)
    )
    across = [round(FINER * float(frame.across(place))) for place, _ in panel.x.ticks]
    down = [round(FINER * float(frame.down(place))) for place, _ in panel.y.ticks]
    for place in across if panel.grid else ():
        pen.rectangle((place, top, place + FINER - 1, bottom), GRID)
    for place in down if panel.grid else ():
        pen.rectangle((left, place, right, place + FINER - 1), GRID)
    for shape in panel.shapes:
        if isinstance(shape, Bars):
            _draw_bars(pen, frame, shape)
        else:
            _draw_line(pen, frame, shape)
    pen.rectangle((left - FINER, top, left - 1, bottom + FINER - 1), INK)
    pen.rectangle((left - FINER, bottom, right, bottom + FINER - 1), INK)
    for place in across:
        pen.rectangle((place, bottom, place + FINER - 1, bottom + FINER * (TICK + 1) - 1), INK)
    for place in down:
        pen.rectangle((left - FINER * (TICK + 1), place, left - 1, place + FINER - 1), INK)
    for start, middle, _, colour in frame.legend():
        box = (start, middle - 4, start + SWATCH, middle + 4)
        pen.rectangle([FINER * side for side in box], colour)


def _draw_bars(pen: ImageDraw.ImageDraw, frame: Frame, bars: Bars) -> None:
    sides = (
        frame.across(bars.left), frame.down(bars.high), frame.across(bars.right),
        frame.down(bars.low),
    )  # fmt: skip
    for left, top, right, bottom in np.rint(FINER * np.column_stack(sides)).astype(int).tolist():
        if left < right and top < bottom:
            pen.rectangle((left, top, right - 1, bottom - 1), bars.colour)


def _draw_line(pen: ImageDraw.ImageDraw, frame: Frame, line: Line) -> None:
    points = FINER * np.column_stack([frame.across(line.x), frame.down(line.y)])
    pen.line(points.ravel().tolist(), line.colour, 2 * FINER, joint="curve")
    size = 2.5 * FINER
    for x, y in points.tolist() if len(points) <= MOST_MARKED else ():
        pen.ellipse((x - size, y - size, x + size, y + size), line.colour)


def _draw_texts(sheet: Image.Image, pen: ImageDraw.ImageDraw, frame: Frame) -> None:
    panel, font, beneath = frame.panel, _font(TEXT), frame.bottom + TICK + GAP / 2
    middle = (frame.left + frame.right) / 2
    for place, text in panel.x.ticks:
        pen.text((float(frame.across(place)), beneath), text, INK, font, anchor="ma")
    pen.text((middle, beneath + TEXT + GAP / 2), panel.x.label, INK, font, anchor="ma")
    for place, text in panel.y.ticks:
        end = frame.left - TICK - GAP / 2
        pen.text((end, float(frame.down(place))), text, INK, font, anchor="rm")
    if panel.y.label:
        mask = Image.new("L", (round(_text_width(panel.y.label, TEXT)), TEXT + 5))
        ImageDraw.Draw(mask).text((0, 0), panel.y.label, 255, font)
        mask = mask.rotate(90, expand=True)
        place = frame.left - _beside(panel.y) + GAP
        corner = (round(place), round((frame.top + frame.bottom - mask.height) / 2))
        sheet.paste(INK, corner, mask)
    pen.text((middle, frame.title_middle), panel.title, INK, _font(LARGE), anchor="mm")
    for place, height, text, _ in frame.legend():
        pen.text((place + SWATCH + GAP, height), text, INK, _font(SMALL), anchor="lm")


def _beside(axis: Axis) -> float:
    """Room left of a y axis: for ticks with their texts, and the label."""
    label = TEXT + GAP if axis.label else 0
    texts = max((_text_width(text, TEXT) for _, text in axis.ticks), default=0.0)
    return GAP + label + texts + GAP / 2 + TICK


def _beyond(axis: Axis) -> float:
    """Room right of an x axis: for half the last tick's text."""
    return GAP + max((_text_width(text, TEXT) for _, text in axis.ticks[-1:]), default=0.0) / 2


def _above(panel: Panel, width: float) -> float:
    rows = len(_rows(panel.legend, width))
    return GAP + LEGEND_ROW * rows + (TITLE_ROW if panel.title else 0)


def _rows(legend: Sequence[tuple[str, str]], width: float) -> list[list[tuple[str, str]]]:
    """The legend's entries in rows that are at most as wide as the axes, or have one entry."""
    rows: list[list[tuple[str, str]]] = []
    taken = width
    for text, colour in legend:
        if not rows or taken + _entry_width(text) > width:
            rows.append([])
            taken = 0.0
        rows[-1].append((text, colour))
        taken += _entry_width(text)
    return rows


def _entry_width(text: str) -> float:
    return SWATCH + GAP + _text_width(text, SMALL) + 2 * GAP


def fitting(text: str, width: float, size: int) -> str:
    """The text, shortened in its middle if too wide: a title's end often distinguishes it from
    others.
    """
    shown, kept = text, len(text)
    while _text_width(shown, size) > width:
        kept -= 1
        shown = f"{text[: kept - kept // 3]}\u2026{text[len(text) - kept // 3 :]}"
    return shown


def _text_width(text: str, size: int) -> float:
    return _font(size).getlength(text)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """Matplotlib's font, without loading matplotlib."""
    package = find_spec("matplotlib")
    assert package is not None and package.origin is not None
    path = Path(package.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(path, size)
