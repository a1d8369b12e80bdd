"""Fill the tables of papers/, yardsticks.md and board.md of docs from analysis/results/.

Papers' cells and ours side by side are drawn from there, too (docs/papers/beside.png), and FedSAC's
figures.

    python analysis/pages.py            write what has changed
    python analysis/pages.py --check    write nothing; exit status 1 where a page is out of date

What lies between two marks of a page is made here and nowhere else:

    <!-- results: EXHIBIT FIGURE... [percent] [digits=N] [scale=NAME] -->
        one figure: names down, data sets across, the paper's cells beside them;
        several: a table per data set, figures across; none: all that the exhibit has
    <!-- claims: EXHIBIT [scale=NAME] -->      the verdicts on the exhibit's claims
    <!-- summary -->                           every exhibit: what was run, what its claims say
    <!-- plan: PAPER... -->                    core-hours by exhibit, and what was not run
    <!-- not_run -->                           the page's exhibits without rows at the paper's size
    <!-- repeats -->                           what was recorded again at a later commit
    <!-- board: PART [DATA] -->                rows, or of a data set learned, costs or front
    <!-- version_one: TABLE -->                what version one of simfl had, as it was kept
    <!-- end -->

and within a sentence

    <!-- value: EXHIBIT; DATA; METRIC[; OPTION...] -->12.3<!-- end -->
        METRIC as in a claim: "FIGURE/NAME" or "A - B" of the same seed; options: mean (the
        default), sd, min, max or each (of the seeds, in their order), seed=K, percent, digits=N,
        scale=NAME

Without a scale the largest one counts that has rows.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from fedsac_pictures import PICTURES as OF_FEDSAC
from numpy.typing import NDArray
from papers_picture import PICTURE

from paper import Paper, check_claims
from paper.claims import ABOUT, in_words, metric
from paper.results import CELL, PLAN, RESULTS, read_results
from paper.tables import END, across, beside, markdown

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "analysis" / "published"
PAGES = (
    *sorted((ROOT / "docs" / "papers").glob("*.md")),
    ROOT / "docs" / "yardsticks.md",
    ROOT / "docs" / "board.md",
)
PAPERS = ("fedcure", "corefed", "fedsac", "fl_games")
SCALES = ("paper", "quick", "smoke")
"""From the largest to the smallest."""

BLOCK = re.compile(
    r"(<!-- (results|claims|summary|plan|not_run|repeats|board|version_one)(?:: ([^\n]*?))? -->\n)"
    r".*?(<!-- end -->)",
    re.S,
)
VALUE = re.compile(r"(<!-- value: ([^\n]*?) -->)[^\n]*?(<!-- end -->)")
NOTHING = "No runs yet.\n"
CALIBRATING = "_unended"
"""How the names of runs end that calibrate the row of the rest of their names."""
VERDICTS = ("HOLDS", "UNDECIDED", "FAILS", "NOTE")


def paper_of(name: str) -> Paper:
    """What the paper's script declares."""
    declared: Paper = importlib.import_module(name).PAPER
    return declared


def filled(page: Path) -> str:
    """The text of a page with its blocks made anew."""

    def made(block: re.Match[str]) -> str:
        opening, kind, words, closing = block.groups()
        if kind == "summary":
            text = summary()
        elif kind == "plan":
            text = plan((words or "").split())
        elif kind == "not_run":
            text = not_run(paper_of(page.stem))
        elif kind == "repeats":
            text = repeats()
        elif kind == "board":
            text = board((words or "").split())
        elif kind == "version_one":
            text = version_one(page.stem, words or "")
        else:
            paper = paper_of(page.stem)
            text = (results if kind == "results" else claims)(paper, (words or "").split())
        return f"{opening}\n{text}\n{closing}"

    def told(mark: re.Match[str]) -> str:
        opening, words, closing = mark.groups()
        return opening + value(paper_of(page.stem), words.split("; ")) + closing

    return VALUE.sub(told, BLOCK.sub(made, page.read_text(encoding="utf-8")))


def results(paper: Paper, words: Sequence[str]) -> str:
    """The tables of one exhibit."""
    name, values, scale, options = _asked(paper, words)
    exhibit = paper.exhibits[name]
    if values.empty:
        return NOTHING
    figures = [one for one in words[1:] if one in set(values["figure"])]
    digits = int(options.get("digits", 2 if "percent" in words else 3))
    head = _head(paper, name, scale, values)
    if len(figures) == 1:
        (figure,) = figures
        published = exhibit.published(figure) if exhibit.published else None
        factor = 100 if "percent" in words else 1
        table = beside(values, figure, published, scale=factor, digits=digits)
        return head + markdown(figure + (", %" if "percent" in words else ""), table)
    # With what a run had at its end: the bound on what it never got to.
    asked = [*figures, *(f"{one}{END}" for one in figures)] if figures else None
    there = values if asked is None else values[values["figure"].isin(asked)]
    of_data = values[values["data"].isin(there["data"])].groupby("data", sort=False)
    tables = (markdown(str(data), across(own, digits, asked)) for data, own in of_data)
    return head + "\n".join(tables)


def claims(paper: Paper, words: Sequence[str]) -> str:
    """The verdicts on one exhibit's claims."""
    name, values, scale, _ = _asked(paper, words)
    if values.empty:
        return NOTHING
    checked = check_claims(paper.claims, name, values)
    checked = checked[checked["verdict"] != "SKIPPED"]
    return _head(paper, name, scale, values) + markdown("verdict", in_words(checked))


def value(paper: Paper, words: Sequence[str]) -> str:
    """One number of an exhibit, for a sentence; raises ValueError where there are no such rows."""
    name, data, expression, *options = words
    asked = {key: given for key, _, given in (one.partition("=") for one in options)}
    _, values, _, _ = _asked(paper, [name, *options])
    values = values[values["data"] == data]
    if "seed" in asked:
        values = values[values["seed"] == int(asked["seed"])]
    measured = metric(values, expression) * (100 if "percent" in asked else 1)
    if not measured.size:
        raise ValueError(f"{paper.name}: no value of {'; '.join(words)}")
    ways = {"sd": partial(np.std, ddof=1), "min": np.min, "max": np.max, "each": np.asarray}
    taken = next((ways[one] for one in options if one in ways), np.mean)(measured)
    digits = int(asked.get("digits", 1 if "percent" in asked else 3))
    return ", ".join(f"{one:.{digits}f}" for one in np.atleast_1d(taken))


def version_one(paper: str, table: str) -> str:
    """A table of version one, cell by cell as its page had it."""
    file = PUBLISHED / f"{paper}_version_one.csv"
    kept = pd.read_csv(file, dtype=str, keep_default_na=False)
    cells = kept[kept["table"] == table]
    if cells.empty:
        raise ValueError(f"{file.name}: no table {table!r}")
    wide = cells.pivot(index="row", columns="column", values="cell")
    wide = wide.loc[pd.unique(cells["row"]), pd.unique(cells["column"])].fillna("")
    return markdown(table, wide)


def board(words: Sequence[str]) -> str:
    """A part of the board: which rows there are, or what is recorded of a data set."""
    made = importlib.import_module("board")
    if words[0] == "rows":
        return str(made.table_of_rows())
    part, data = words
    values = made.recorded("quick")
    values = values[values["data"] == data]
    if values.empty:
        return NOTHING
    seeds = made.wide(values, data)["seed"]
    head = _head(made.PAPER, made.EXHIBIT, "quick", values[values["seed"].isin(seeds)])
    return head + str(made.block(values, data, part))


def summary() -> str:
    """A row per exhibit and scale that has results."""
    rows = []
    for paper in map(paper_of, PAPERS):
        for name, exhibit in paper.exhibits.items():
            found = _rows(paper, name)
            for scale in SCALES:
                values = found[found["scale"] == scale]
                if values.empty:
                    continue
                checked = check_claims(paper.claims, name, values)
                about = checked["about"] if len(checked) else pd.Series(dtype=str)
                theirs, ours = (
                    list(checked["verdict"][about == whose]) if len(checked) else []
                    for whose in ABOUT
                )
                cells = set(values[["data", "name"]].itertuples(index=False, name=None))
                rows.append(
                    [
                        paper.title, exhibit.title, scale,
                        f"{len(cells)} cell(s): {_seeds(values, exhibit.means_over.get(scale, 1))}",
                        _of_the_paper(paper, name, values, cells),
                        *(str(theirs.count(verdict)) for verdict in VERDICTS),
                        " / ".join(str(ours.count(verdict)) for verdict in VERDICTS),
                    ]
                )  # fmt: skip
    columns = ["paper", "exhibit", "scale", "run", "of the paper's", *VERDICTS, "ours"]
    table = pd.DataFrame(rows, columns=columns).set_index("paper")
    return markdown("paper", table) if rows else NOTHING


def _of_the_paper(
    paper: Paper, exhibit: str, values: pd.DataFrame, ours: set[tuple[str, str]]
) -> str:
    """How many of the cells that the paper prints are among ours, and how many it prints.

    A paper's cell stands beside other rows of ours, too (another reading, a part of a data set):
    these are not counted.
    """
    printed = _printed(paper, exhibit, values)
    return f"{len(printed & ours)} of {len(printed)}" if printed else "-"


def _printed(paper: Paper, exhibit: str, values: pd.DataFrame) -> set[tuple[str, str]]:
    """The data sets and rows that the paper prints of an exhibit, under their own names."""
    published = paper.exhibits[exhibit].published
    copied = pd.read_csv(PUBLISHED / f"{paper.name}.csv", dtype=str)
    if published is None or exhibit not in set(copied["table"]):
        return set()
    return {
        (data, name)
        for figure in pd.unique(values["figure"])
        for data, name in published(figure)
        if name in set(copied["name"]) and data.split(" ")[0] in set(copied["data"])
    }


def plan(papers: Sequence[str]) -> str:
    """A row per exhibit of these papers that was planned: runs, core-hours, left, its command."""
    file = RESULTS / "plan.csv"
    if not file.exists():
        return NOTHING
    planned = pd.read_csv(file)
    planned = planned[planned["paper"].isin(papers)]
    rows = []
    for (paper, exhibit, scale), own in planned.groupby(["paper", "exhibit", "scale"], sort=False):
        declared = paper_of(str(paper))
        found = _rows(declared, str(exhibit))
        found = found[found["scale"] == scale]
        share = _share_run(own, found, declared.exhibits[str(exhibit)].means_over)
        run = np.rint(share * own["seeds"]).astype(int)
        left = float((own["core_hours"] * (1 - share)).sum())
        rows.append(
            [
                str(paper), str(exhibit), str(scale), f"{run.sum()} of {own['seeds'].sum()}",
                f"{own['core_hours'].sum():.1f}", f"{left:.1f}",
                _command(str(paper), str(exhibit), str(scale), own["data"].unique().tolist()),
            ]
        )  # fmt: skip
    columns = ["paper", "exhibit", "scale", "runs", "core-hours", "left", "command"]
    return markdown("paper", pd.DataFrame(rows, columns=columns).set_index("paper"))


def not_run(paper: Paper) -> str:
    """A row per exhibit of which something was not run at the paper's size, and its command.

    Core-hours are those left, if they are planned. Parts of other exhibits are left out.
    """
    file = RESULTS / "plan.csv"
    planned = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=PLAN)
    planned = planned[planned["paper"].eq(paper.name) & planned["scale"].eq(SCALES[0])]
    rows = []
    for name, exhibit in paper.exhibits.items():
        found = _rows(paper, name)
        smaller = [one for one in SCALES if (found["scale"] == one).any()]
        if exhibit.part_of:
            continue
        own = planned[planned["exhibit"] == name]
        values = found[found["scale"] == SCALES[0]]
        left = own["core_hours"] * (1 - _share_run(own, values, exhibit.means_over))
        missing = _missing(paper, name, own, values) if len(values) else "all of it"
        if not missing:
            continue
        hours = f"{left.sum():.1f}" if left.sum() else "-"
        data = own["data"].unique().tolist()
        command = _command(paper.name, name, SCALES[0], data)
        rows.append([exhibit.title, missing, ", ".join(smaller) or "-", hours, command])
    columns = ["exhibit", "not run", "recorded at", "core-hours", "command"]
    return markdown("exhibit", pd.DataFrame(rows, columns=columns).set_index("exhibit"))


def _missing(paper: Paper, exhibit: str, planned: pd.DataFrame, values: pd.DataFrame) -> str:
    """What an exhibit lacks: seeds that are planned, or that other rows have; the paper's rows."""
    share = _share_run(planned, values, paper.exhibits[exhibit].means_over)
    lacking: dict[str, dict[str, list[str]]] = {}
    for one, part in zip(planned.itertuples(index=False), share, strict=True):
        if part < 1:
            seeds = f"{round(part * one.seeds)} of {one.seeds} seeds" if part else "all seeds"
            lacking.setdefault(str(one.data), {}).setdefault(seeds, []).append(str(one.name))
    ours = set(values[["data", "name"]].itertuples(index=False, name=None))
    known_plan = set(planned[["data", "name"]].itertuples(index=False, name=None))
    seeds_of = values.groupby(["data", "name"], sort=False)["seed"].nunique()
    for (data, name), count in seeds_of[seeds_of < seeds_of.max()].items():
        if (data, name) not in known_plan:
            seeds = f"{count} of {seeds_of.max()} seeds"
            lacking.setdefault(data, {}).setdefault(seeds, []).append(name)
    for data, name in sorted(_printed(paper, exhibit, values) - ours):
        known = [names for names in lacking.get(data, {}).values() if name in names]
        if not known:
            lacking.setdefault(data, {}).setdefault("the paper's row", []).append(name)
    there = {data for data, _ in ours}
    said = []
    for data in [one for one in lacking if one in there]:
        which = [f"{', '.join(names)} ({_only(seeds)})" for seeds, names in lacking[data].items()]
        said.append(f"{data}: {'; '.join(which)}")
    scenes: dict[str, list[str]] = {}
    for data in [one for one in lacking if one not in there]:
        of, _, scene = data.partition(" ")
        scenes.setdefault(of, []).extend([scene] if scene else [])
    said += [f"{of} {', '.join(own)}".rstrip() for of, own in scenes.items()]
    return "; ".join(said)


def _only(seeds: str) -> str:
    """What is said of rows of which some seeds were run, or none."""
    return f"{seeds} run" if " of " in seeds else "not run"


def _share_run(
    planned: pd.DataFrame, values: pd.DataFrame, means_over: Mapping[str, int]
) -> NDArray[np.float64]:
    """The share of its planned seeds that each planned row has among `values` (of one scale).

    A run that calibrates a row records nothing itself: it was run if that row was.
    """
    done = values[["data", "name", "seed"]].drop_duplicates().groupby(["data", "name"]).size()
    scale = values["scale"].iloc[0] if len(values) else SCALES[0]
    done *= means_over.get(str(scale), 1)
    names = planned["name"].astype(str).str.removesuffix(CALIBRATING)
    cells = pd.MultiIndex.from_arrays([planned["data"], names])
    run = np.minimum(done.reindex(cells, fill_value=0).to_numpy(), planned["seeds"].to_numpy())
    return np.asarray(run / planned["seeds"].to_numpy(), dtype=float)


def repeats() -> str:
    """A row per exhibit that was recorded twice: how many values are the same, how far they are."""
    file = RESULTS / "repeats.csv"
    if not file.exists():
        return NOTHING
    known = pd.read_csv(file, dtype=str)
    table = known[["exhibit", "scale", "data", "before", "after", "values"]]
    table = table.assign(**{"to the bit": known["equal"], "largest difference": known["largest"]})
    return markdown("paper", table.set_axis(known["paper"]))


def _command(paper: str, exhibit: str, scale: str, data: Sequence[str]) -> str:
    """What runs these cells, and no other data sets."""
    words = ["python", f"analysis/{paper}.py", exhibit, "--scale", scale]
    words += ["--data", *data] if data else []
    return f"`{shlex.join(words)}`"


def _asked(paper: Paper, words: Sequence[str]) -> tuple[str, pd.DataFrame, str, dict[str, str]]:
    """The exhibit's name, its rows at the scale that is asked for, that scale, other options."""
    name = words[0]
    if name not in paper.exhibits:
        raise ValueError(f"{paper.name}: no exhibit {name!r}; it has {', '.join(paper.exhibits)}")
    options = dict(one.split("=", 1) for one in words[1:] if "=" in one)
    found = _rows(paper, name)
    there = [one for one in SCALES if (found["scale"] == one).any()]
    scale = options.get("scale", there[0] if there else SCALES[0])
    return name, found[found["scale"] == scale], scale, options


def _rows(paper: Paper, exhibit: str) -> pd.DataFrame:
    """An exhibit's rows: its own, and those that it borrows of cells that it does not have."""
    found = read_results(RESULTS / f"{paper.name}.csv")
    own, borrows = found[found["exhibit"] == exhibit], paper.exhibits[exhibit].borrows
    if borrows is None:
        return own
    cells, borrowed = pd.MultiIndex.from_frame(own[CELL[1:]]), borrows(found)
    lacking = ~pd.MultiIndex.from_frame(borrowed[CELL[1:]]).isin(cells)
    return pd.concat([own, borrowed[lacking]], ignore_index=True)


def _head(paper: Paper, name: str, scale: str, values: pd.DataFrame) -> str:
    """Scale, seeds and commits, as a line above a table."""
    exhibit = paper.exhibits[name]
    commits = ", ".join(pd.unique(values["commit"]))
    reduced = paper.scales[scale].reduced
    size = f"scale `{scale}`: {reduced}" if reduced else "at the paper's size"
    seeds = _seeds(values, exhibit.means_over.get(scale, 1))
    return f"{seeds}; {exhibit.size or size}; simfl {commits}.\n\n"


def _seeds(values: pd.DataFrame, means_over: int = 1) -> str:
    """How many, by data set where they differ between those."""
    if means_over > 1:
        return f"means over {means_over} seeds"
    counts = values.groupby(["data", "name"], sort=False)["seed"].nunique()
    of_data = {data: _count(own) for data, own in counts.groupby("data", sort=False)}
    if len(set(of_data.values())) == 1:
        return next(iter(of_data.values()))
    return ", ".join(f"{data}: {count}" for data, count in of_data.items())


def _count(seeds: pd.Series) -> str:
    fewest, most = seeds.min(), seeds.max()
    counted = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{counted} seed{'s' if most > 1 else ''}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description="Fill the tables of docs.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    stale = 0
    for page in PAGES:
        text = filled(page)
        if text != page.read_text(encoding="utf-8"):
            stale += 1
            print(f"{page.relative_to(ROOT)}: {'out of date' if check else 'written'}")
            if not check:
                page.write_text(text, encoding="utf-8")
    for picture in (PICTURE, *OF_FEDSAC):
        if not picture.is_current():
            stale += 1
            print(f"{picture.path.relative_to(ROOT)}: {'out of date' if check else 'drawn'}")
            if not check:
                picture.save()
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
