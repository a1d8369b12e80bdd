"""An HTML page in one file: text, tables and interactive charts, without external files."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simfl.common.files import replacing
from simfl.pictures.colours import COLOURS

FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

STYLE = f"""
:root {{ color-scheme: light; }}
body {{ font: 15px/1.45 {FONT}; color: #1b1f24; background: #fff; margin: 0 auto;
  max-width: 1220px; padding: 16px 24px 64px; }}
h1 {{ font-size: 26px; margin: 8px 0 2px; }}
h2 {{ font-size: 20px; margin: 36px 0 6px; border-bottom: 2px solid {COLOURS[0]};
  padding-bottom: 4px; }}
h3 {{ font-size: 15px; margin: 12px 0 0; }}
p {{ margin: 6px 0; max-width: 95ch; }}
.charts {{ display: grid; gap: 8px 24px;
  grid-template-columns: repeat(auto-fit, minmax(min(540px, 100%), 1fr)); }}
.charts figure {{ margin: 0; min-width: 0; }}
.charts.wide {{ grid-template-columns: 1fr; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin: 8px 0; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 4px 12px 4px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid #d9dde2; }}
.many td {{ white-space: nowrap; }}
th {{ border-bottom: 2px solid #1b1f24; }}
td.number, th.number {{ text-align: right; }}
pre {{ background: #f4f5f7; padding: 12px; overflow-x: auto; }}
.note {{ color: #4d5560; font-size: 14px; }}
@media (max-width: 600px) {{
  body {{ padding: 8px 12px 48px; }}
  .words, .words tbody, .words tr, .words td {{ display: block; }}
  .words thead {{ display: none; }}
  .words tr {{ border-bottom: 1px solid #d9dde2; padding: 6px 0; }}
  .words td {{ border: 0; padding: 1px 0; text-align: left; }}
  .words td:empty {{ display: none; }}
  .words td[data-head]::before {{ content: attr(data-head) ": "; color: #4d5560; }}
}}
"""

# On a phone a legend has more rows than in a wide column; the chart grows accordingly.
SCRIPT = """
for (const holder of document.querySelectorAll("[data-chart]")) {
  const chart = JSON.parse(document.getElementById(holder.dataset.chart).textContent);
  const width = holder.clientWidth;
  if (width < 480 && chart.layout.showlegend) {
    let entries = 0;
    for (const one of chart.data)
      if (one.showlegend !== false) entries += 50 + 7 * (one.name || "").length;
    const more = 19 * Math.floor(entries / width);
    chart.layout.margin.b += more;
    chart.layout.height += more;
    holder.style.height = chart.layout.height + "px";
  }
  Plotly.newPlot(holder, chart.data, chart.layout,
    {responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"]});
}
"""


SENTENCE = 40
"""A cell with more characters than this is a sentence, not a name or figure."""


class MissingPlotly(RuntimeError):
    """The library that draws the charts is not installed."""


@dataclass
class Page:
    """A page under construction; every method appends to it."""

    title: str
    _body: list[str] = field(default_factory=list)
    _charts: int = 0

    def heading(self, text: str) -> None:
        """A section's heading."""
        self._body.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        """A paragraph; `kind` "note" is small print."""
        label = f' class="{kind}"' if kind else ""
        self._body.append(f"<p{label}>{html.escape(text)}</p>")

    def source(self, title: str, text: str) -> None:
        """Text as it is, initially folded."""
        self._body.append(
            f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(text)}</pre></details>"
        )

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table; columns of numbers are aligned to the right.

        On a phone, a table with sentences becomes a list, since its columns would be too narrow.
        """
        rows = [list(row) for row in rows]
        numeric = [
            bool(rows) and all(isinstance(row[at], int | float) for row in rows)
            for at in range(len(columns))
        ]
        classes = [' class="number"' if one else "" for one in numeric]
        head = "".join(
            f"<th{kind}>{html.escape(name)}</th>"
            for name, kind in zip(columns, classes, strict=True)
        )
        heads = [f' data-head="{html.escape(name)}"' if name else "" for name in columns]
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{kind}{title}>{html.escape(shown(value))}</td>"
                for value, kind, title in zip(row, classes, heads, strict=True)
            )
            + "</tr>"
            for row in rows
        )
        sentences = any(len(str(value)) > SENTENCE for row in rows for value in row)
        looks = "many" if len(columns) > 10 else "words" if sentences and any(columns) else ""
        self._body.append(
            f'<div class="scroll"><table class="{looks}"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def charts(self, *charts: tuple[str, Mapping[str, Any]], wide: bool = False) -> None:
        """Charts side by side (`wide`: below one another), each with its title."""
        cells = []
        for title, chart in charts:
            name, self._charts = f"chart-{self._charts}", self._charts + 1
            height = chart["layout"]["height"]
            cells.append(
                f"<figure><h3>{html.escape(title)}</h3>"
                f'<div data-chart="{name}" style="height:{height}px"></div></figure>'
                + _data(name, chart)
            )
        kind = "charts wide" if wide else "charts"
        self._body.append(f'<div class="{kind}">{"".join(cells)}</div>')

    def data(self, name: str, content: Mapping[str, Any]) -> None:
        """Data for readers' scripts: JSON in a script element with the ID `name`."""
        self._body.append(_data(name, content))

    def save(self, path: Path) -> Path:
        """Write the page; raises `MissingPlotly`, and OSError if it cannot be written."""
        page = (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title><style>{STYLE}</style>"
            f'<script id="plotly">{plotly_script()}</script></head>'
            f"<body><h1>{html.escape(self.title)}</h1>{''.join(self._body)}"
            f"<script>{SCRIPT}</script></body></html>\n"
        )
        with replacing(path, f".partial{path.suffix}") as file:
            file.write_text(page, encoding="utf-8", errors="backslashreplace")
        return path


def plotly_script() -> str:
    """The source of the chart library; raises `MissingPlotly`."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingPlotly(
            "a report's charts need plotly, which is not installed: pip install plotly"
        ) from None
    script: str = get_plotlyjs()
    return script


def shown(value: Any) -> str:
    """A value as a table shows it: four digits, a dash if it is not known."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def plain(values: Any) -> Any:
    """Values for JSON: NaN becomes null, floats keep six digits."""
    if isinstance(values, Mapping):
        return {str(key): plain(one) for key, one in values.items()}
    if isinstance(values, np.ndarray):
        return plain(values.tolist())
    if isinstance(values, list | tuple):
        return [plain(one) for one in values]
    if isinstance(values, float | np.floating):
        return float(f"{values:.6g}") if math.isfinite(values) else None
    return values.item() if isinstance(values, np.generic) else values


def _data(name: str, content: Mapping[str, Any]) -> str:
    # "</script" would end a script element early, and "<!--<script" would prevent its end.
    text = json.dumps(plain(content), separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>'
