"""Values of exhibits are kept as rows, and the pages are made from them."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import pages
import pandas as pd
import papers_picture
import pytest

from paper import Exhibit, Paper, Scale, Study, command, main, results
from paper.results import read_results, record_plan, write_results

COLUMNS = ["data", "name", "seed", "figure", "value"]
REPEATED = """paper,exhibit,scale,data,before,after,values,equal,largest
a_paper,table1,paper,digits,aaaa,bbbb,4,3,0.5
"""
COPIED = "table,data,name\ntable1,digits,a\ntable1,mnist,a\n"
CLAIMS = """
paper: A paper
claims:
  - id: a_over_b
    statement: A is better.
    source: Table 1
    kind: directional
    figure: table1
    metric: accuracy/a - accuracy/b
    at_least: 0
"""


def values(*rows: tuple[str, int, float]) -> pd.DataFrame:
    """Accuracies on digits by name and seed."""
    listed = [("digits", name, seed, "accuracy", value) for name, seed, value in rows]
    return pd.DataFrame(listed, columns=COLUMNS)


@pytest.fixture
def commit(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commit that is checked out, to be changed by a test."""
    now = ["c1"]
    monkeypatch.setattr(results, "current_commit", lambda: now[0])
    return now


def test_every_call_adds_its_runs_and_replaces_its_own(tmp_path: Path, commit: list[str]) -> None:
    """In the order of exhibit, scale, data and seed, however they came; to the last bit."""
    file = tmp_path / "a.csv"
    write_results(file, "table1", "quick", values(("a", 1, 0.1 + 0.2), ("b", 1, float("nan"))))
    write_results(file, "table1", "paper", values(("a", 0, 0.9)))
    write_results(file, "table1", "quick", values(("a", 0, 0.5)))

    found = read_results(file)

    assert list(zip(found["scale"], found["seed"], found["name"], strict=True)) == [
        ("paper", 0, "a"), ("quick", 0, "a"), ("quick", 1, "a"), ("quick", 1, "b")
    ]  # fmt: skip
    assert found["value"][2] == 0.1 + 0.2 and pd.isna(found["value"][3])
    assert set(found["commit"]) == {"c1"}
    write_results(file, "table1", "quick", values(("a", 0, 0.6)))
    assert list(read_results(file)["value"][:2]) == [0.9, 0.6]


def test_a_run_that_is_only_read_again_stays_as_it_was_recorded(
    tmp_path: Path, commit: list[str]
) -> None:
    """It keeps the commit of its run; new results, and changed readings, are recorded."""
    file = tmp_path / "a.csv"
    nan = float("nan")
    before = values(("a", 0, 0.5), ("undefined", 0, nan), ("otherwise", 0, 0.125))
    write_results(file, "table1", "quick", before)
    commit[0] = "c2"

    after = values(("a", 0, 0.5), ("undefined", 0, nan), ("otherwise", 0, 0.25), ("new", 0, 0.75))
    write_results(file, "table1", "quick", after, again=False)

    found = read_results(file).set_index("name")
    assert found["commit"].to_dict() == {
        "a": "c1", "undefined": "c1", "otherwise": "c2", "new": "c2"
    }  # fmt: skip
    assert found.loc[["otherwise", "new"], "value"].tolist() == [0.25, 0.75]


def test_it_says_what_repeats_at_a_later_commit(tmp_path: Path, commit: list[str]) -> None:
    """To the bit, or how far apart; the counts are kept."""
    file = tmp_path / "a.csv"
    write_results(file, "table1", "quick", values(("a", 0, 0.5), ("a", 1, 0.25)))
    commit[0] = "c2"

    said = write_results(file, "table1", "quick", values(("a", 0, 0.5), ("a", 1, 0.75)))

    assert "1 of 2 repeat to the bit" in said
    (row,) = pd.read_csv(tmp_path / "repeats.csv").to_dict("records")
    assert (row["before"], row["after"], row["equal"], row["largest"]) == ("c1", "c2", 1, 0.5)
    assert "repeat" not in write_results(file, "table1", "quick", values(("a", 0, 0.5)))


def test_rows_say_on_which_platform_they_were_made(
    tmp_path: Path, commit: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repetition elsewhere names both; rows from before it was noted have none."""
    file = tmp_path / "a.csv"
    write_results(file, "table1", "quick", values(("a", 0, 0.5)))
    assert read_results(file)["platform"].str.startswith("torch ").all()
    file.write_text(file.read_text().replace(results.current_platform(), ""))
    write_results(file, "table1", "quick", values(("a", 1, 0.5)))
    assert read_results(file)["platform"].tolist() == ["", results.current_platform()]
    here = results.current_platform()
    monkeypatch.setattr(results, "current_platform", lambda: "another")

    write_results(file, "table1", "quick", values(("a", 0, 0.5), ("a", 1, 0.25)))

    (row,) = pd.read_csv(tmp_path / "repeats.csv").to_dict("records")
    assert (row["before"], row["after"]) == (f"c1, {here}", "c1, another")
    assert (row["values"], row["equal"]) == (1, 0)


def test_a_plan_for_some_data_leaves_that_for_others(tmp_path: Path) -> None:
    """What was measured there is not lost to an estimate."""
    file = tmp_path / "plan.csv"
    for data, name, hours in (("a", "x", 1.0), ("b", "x", 2.0), ("b", "y", 3.0)):
        planned = pd.DataFrame({"data": [data], "name": name, "seeds": 5, "core_hours": hours})
        record_plan(file, "a_paper", "table1", "paper", planned)

    found = pd.read_csv(file)

    assert found[["data", "name", "core_hours"]].to_numpy().tolist() == [
        ["a", "x", 1.0],
        ["b", "y", 3.0],
    ]


def test_a_run_that_calibrates_was_run_if_its_row_was() -> None:
    """It records nothing itself."""
    names = ["a_unended", "a", "b_unended", "b"]
    planned = pd.DataFrame({"data": "digits", "name": names, "seeds": [1, 5, 1, 5]})
    done = values(("a", 0, 0.9), ("a", 1, 0.8)).assign(scale="paper")

    assert pages._share_run(planned, done, {}).tolist() == [1.0, 0.4, 0.0, 0.0]


@pytest.fixture
def page(tmp_path: Path, commit: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of a paper of one table, two of whose five seeds were run."""
    claims = tmp_path / "a_paper.yaml"
    claims.write_text(CLAIMS, encoding="utf-8")

    def never(study: Study) -> pd.DataFrame:
        raise AssertionError

    def published(figure: str) -> dict[tuple[str, str], str]:
        cells = dict.fromkeys(product(("digits", "mnist", "digits_part"), ("a", "a_read")), "91.5")
        return cells if figure == "accuracy" else {}

    paper = Paper(
        "A paper",
        claims,
        {"paper": Scale("paper", 5, ("digits",)), "quick": Scale("quick", 2, (), "short")},
        {
            "table1": Exhibit("Table 1", never, published=published),
            "table2": Exhibit("Table 2", never, size="one device", means_over={"quick": 3}),
            "table3": Exhibit("Table 3", never),
        },
    )
    once = values(("a", 0, 0.9))
    write_results(tmp_path / "a_paper.csv", "table2", "quick", once)
    rows = values(("a", 0, 0.9), ("b", 0, 0.5), ("a", 1, 0.8), ("b", 1, 0.4))
    write_results(tmp_path / "a_paper.csv", "table1", "paper", rows)
    planned = pd.DataFrame({"data": "digits", "name": ["a", "b"], "seeds": 5, "core_hours": 10.0})
    for exhibit in ("table1", "table3"):
        record_plan(tmp_path / "plan.csv", "a_paper", exhibit, "paper", planned)
    few = pd.DataFrame({"data": ["digits"], "name": ["a"], "seeds": [3], "core_hours": [0.0]})
    record_plan(tmp_path / "plan.csv", "a_paper", "table2", "quick", few)
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "a_paper.csv").write_text(COPIED)
    monkeypatch.setattr(pages, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    (tmp_path / "repeats.csv").write_text(REPEATED)
    monkeypatch.setattr(pages, "PAPERS", ("a_paper",))
    monkeypatch.setattr(pages, "paper_of", lambda name: paper)
    return tmp_path / "a_paper.md"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("results: table1 accuracy percent", "| a           | 85.00 ± 7.07 | 91.5          |"),
        ("results: table1", "| a      | 0.850 ± 0.071 |"),
        ("claims: table1", "| HOLDS   | a_over_b, digits | 0.4   | 0.4 to 0.4 | ≥ 0     | 2 "),
        ("summary", "| A paper | Table 1 | paper | 2 cell(s): 2 seeds            | 1 of 2 "),
        ("plan: a_paper", "| a_paper | table1  | paper | 4 of 10 | 20.0       | 12.0 | `python "),
        ("results: table1 accuracy scale=quick", "No runs yet."),
        ("results: table1", "2 seeds; at the paper's size; simfl c1."),
        ("results: table2", "means over 3 seeds; one device; simfl c1."),
        ("plan: a_paper", "| a_paper | table2  | quick | 3 of 3  | 0.0"),
        ("not_run", "| Table 1 | digits: a, b (2 of 5 seeds run); mnist | paper       | 12.0  "),
        ("not_run", "| Table 2 | all of it                              | quick       | -     "),
        ("not_run", "| Table 3 | all of it                              | -           | 20.0  "),
        ("repeats", "| a_paper | table1  | paper | digits | aaaa   | bbbb  | 4      | 3 "),
    ],
)  # fmt: skip
def test_a_page_is_filled_from_the_rows(page: Path, block: str, expected: str) -> None:
    """Only between its marks, and the same again when it is filled again."""
    page.write_text(f"Before.\n\n<!-- {block} -->\nold\n<!-- end -->\n\nAfter.\n", encoding="utf-8")

    text = pages.filled(page)

    assert expected in text and "old" not in text
    assert text.startswith(f"Before.\n\n<!-- {block} -->\n") and text.endswith("\n\nAfter.\n")
    page.write_text(text, encoding="utf-8")
    assert pages.filled(page) == text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("table1; digits; accuracy/a", "0.850"),
        ("table1; digits; accuracy/a; percent", "85.0"),
        ("table1; digits; accuracy/a - accuracy/b; percent; digits=0", "40"),
        ("table1; digits; accuracy/a; max; digits=2", "0.90"),
        ("table1; digits; accuracy/a; min; digits=2", "0.80"),
        ("table1; digits; accuracy/a; sd; digits=4", "0.0707"),
        ("table1; digits; accuracy/b; each; percent; digits=0", "50, 40"),
        ("table1; digits; accuracy/b; seed=1; digits=1", "0.4"),
    ],
)
def test_a_number_in_a_sentence_is_filled_from_the_rows(
    page: Path, words: str, expected: str
) -> None:
    """Two of them in a line, each between its own marks."""
    mark = f"<!-- value: {words} -->"
    page.write_text(f"It is {mark}old<!-- end --> or {mark}<!-- end -->.\n", encoding="utf-8")

    text = pages.filled(page)

    assert text == f"It is {mark}{expected}<!-- end --> or {mark}{expected}<!-- end -->.\n"


@pytest.mark.parametrize("words", ["table1; digits; accuracy/c", "table1; mnist; accuracy/a"])
def test_a_number_that_is_not_recorded_is_refused(page: Path, words: str) -> None:
    """A sentence has no place for "no runs yet"."""
    page.write_text(f"<!-- value: {words} -->1<!-- end -->\n", encoding="utf-8")

    with pytest.raises(ValueError, match=re.escape(words)):
        pages.filled(page)


def test_seeds_are_told_by_data_set_where_they_differ(page: Path) -> None:
    """Two on one and five on another are not "2 to 5" of each."""
    more = values(*(("a", seed, 0.5) for seed in range(5))).assign(data="mnist")
    write_results(page.parent / "a_paper.csv", "table1", "paper", more)
    page.write_text("<!-- results: table1 accuracy -->\n<!-- end -->\n", encoding="utf-8")

    assert "digits: 2 seeds, mnist: 5 seeds; at the paper's size" in pages.filled(page)


def test_an_exhibit_shows_the_runs_of_another(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has no rows of its own; what neither has is not run."""

    def of_table1(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[rows["exhibit"] == "table1"]

    paper = pages.paper_of("a_paper")
    shown = replace(paper.exhibits["table3"], borrows=of_table1)
    paper = replace(paper, exhibits={**paper.exhibits, "table3": shown})
    monkeypatch.setattr(pages, "paper_of", lambda name: paper)
    own = values(("a", 0, 0.7))
    write_results(page.parent / "a_paper.csv", "table3", "paper", own)
    blocks = ("results: table3", "not_run", "plan: a_paper", "summary")
    page.write_text("\n".join(f"<!-- {one} -->\n<!-- end -->\n" for one in blocks), "utf-8")

    text = pages.filled(page)

    assert "| a      | 0.750 ± 0.071 |" in text and "| b      | 0.450 ± 0.071 |" in text
    assert "| Table 3 | digits: a, b (2 of 5 seeds run)        | paper       | 12.0  " in text
    assert "| a_paper | table3  | paper | 4 of 10 | 20.0       | 12.0 |" in text
    assert "| A paper | Table 3 | paper | 2 cell(s): 2 seeds " in text


def test_what_version_one_had_is_shown_as_it_was_kept(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of its file; a cell that it had not is empty."""
    rows = [("b", "x", "1"), ("a", "x", "2 ± 0"), ("a", "y", "3")]
    kept = pd.DataFrame(rows, columns=["row", "column", "cell"])
    kept.assign(table="Old").to_csv(page.parent / "a_paper_version_one.csv", index=False)
    monkeypatch.setattr(pages, "PUBLISHED", page.parent)
    page.write_text("<!-- version_one: Old -->\n<!-- end -->\n", encoding="utf-8")

    lines = pages.filled(page).splitlines()

    assert [line.replace(" ", "") for line in lines[2:6]] == [
        "|Old|x|y|", "|---|-----|-|", "|b|1||", "|a|2±0|3|"
    ]  # fmt: skip


def test_a_seed_that_never_got_there_leaves_a_bound_and_not_the_mean_of_the_others(
    page: Path,
) -> None:
    """Also where a page names its figures, and not what runs had at their ends."""
    cells = [("seconds", 5.0, None), ("seconds_end", 5.0, 20.0), ("accuracy", 0.9, 0.8)]
    rows = [
        ("digits", "slow", seed, figure, value)
        for figure, *of_seeds in cells
        for seed, value in enumerate(of_seeds)
    ]
    of_exhibit = pd.DataFrame(rows, columns=COLUMNS)
    write_results(page.parent / "a_paper.csv", "table1", "paper", of_exhibit)
    page.write_text("<!-- results: table1 seconds accuracy -->\n<!-- end -->\n", encoding="utf-8")

    text = pages.filled(page)

    assert "| slow   | 0.850 ± 0.071 | > 12.5 (1/2) |" in text
    assert "seconds_end" not in text


def test_the_picture_has_the_papers_own_cells_and_knows_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours in the paper's unit, without other readings, scales, figures; a new row tells."""
    monkeypatch.setattr(papers_picture, "RESULTS", tmp_path)
    rows = pd.DataFrame(
        [
            ("mnist", "fedcure", 1, "accuracy", 0.5),
            ("mnist", "fedcure", 0, "accuracy", 0.25),
            ("mnist", "fair_max", 0, "accuracy", 0.75),
            ("mnist", "fair", 0, "seconds", 3.0),
        ],
        columns=COLUMNS,
    )
    write_results(tmp_path / "fedcure.csv", "table1", "paper", rows)
    write_results(tmp_path / "fedcure.csv", "table1", "quick", rows)
    picture = replace(papers_picture.PICTURE, path=tmp_path / "beside.png")
    picture.save()

    cell = papers_picture.Cell("fedcure, mnist", 96.37, 0.05, (25.0, 50.0))
    assert [own for _, own in papers_picture.shown()] == [[cell], [], [], [], []]
    assert picture.is_current()
    write_results(tmp_path / "fedcure.csv", "table1", "paper", rows.assign(seed=2)[:1])
    assert not picture.is_current()


def test_the_pages_are_up_to_date() -> None:
    """`python analysis/pages.py` has been run since results or pages changed."""
    assert pages.main(["--check"]) == 0


def test_what_an_exhibit_adds_to_its_runs_is_recorded_when_it_ends(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what its runs gave stays as each was kept, with the commit that it was made at."""

    def show(study: Study) -> pd.DataFrame:
        assert study.keep is not None
        study.keep(values(("a", 0, 0.7)), again=True)
        study.kept.add(("digits", "a", 0))
        monkeypatch.setattr(results, "current_commit", lambda: "later")
        return values(("a", 0, 0.7), ("of_both", 0, 0.1))

    paper = pages.paper_of("a_paper")
    exhibit = Exhibit("Table 1", show)
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    arguments = ["table1", "--record", "--out", str(tmp_path / "out"), "--scale", "paper"]

    main(replace(paper, exhibits={"table1": exhibit}), arguments)

    rows = read_results(tmp_path / "a_paper.csv")
    rows = rows[rows["exhibit"] == "table1"].set_index(["name", "seed"])
    assert rows.loc[("a", 0), ["value", "commit"]].tolist() != [0.7, "later"]
    assert rows.loc[("a", 0), "value"] == 0.7
    assert rows.loc[("of_both", 0), ["value", "commit"]].tolist() == [0.1, "later"]


def test_seeds_that_are_none_are_refused(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They ended well, without a run, and wrote a table without a row."""
    arguments = ["table1", "--seeds", "2", "--from-seed", "2", "--out", str(page.parent / "out")]

    with pytest.raises(SystemExit) as refused:
        main(pages.paper_of("a_paper"), arguments)

    assert refused.value.code == 2 and not (page.parent / "out").exists()
    assert "--from-seed: found 2, accepted: below 2, the --seeds" in capsys.readouterr().err


def test_only_values_of_a_cpu_are_recorded(
    page: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refused before anything runs; without `--record` runs go where they are asked to."""
    asked: list[object] = []

    def show(study: Study) -> pd.DataFrame:
        asked.append(study.options.device)
        return values(("a", 0, 0.7))

    paper = replace(pages.paper_of("a_paper"), exhibits={"table1": Exhibit("Table 1", show)})
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    arguments = ["table1", "--out", str(tmp_path / "out"), "--scale", "paper"]

    with pytest.raises(SystemExit) as refused:
        main(paper, [*arguments, "--device", "cuda", "--record"])

    assert refused.value.code == 2
    assert "--record: found --device cuda, accepted with it: cpu" in capsys.readouterr().err
    main(paper, [*arguments, "--device", "auto"])
    main(paper, [*arguments, "--record"])
    assert asked == ["auto", "cpu"]


def test_two_that_record_at_once_lose_nothing(tmp_path: Path, commit: list[str]) -> None:
    """Into one file and its plan, run by run."""
    file, plan = tmp_path / "a.csv", tmp_path / "plan.csv"

    def record(name: str) -> None:
        for seed in range(12):
            write_results(file, "table1", "quick", values((name, seed, 0.5)))
            planned = {"data": [f"{name}{seed}"], "name": ["x"], "seeds": [1], "core_hours": [1.0]}
            record_plan(plan, "a_paper", "table1", "paper", pd.DataFrame(planned))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(record, "abc"))

    assert len(read_results(file)) == len(pd.read_csv(plan)) == 36


def test_a_part_of_a_runs_figures_leaves_the_others(tmp_path: Path, commit: list[str]) -> None:
    """What an exhibit adds to a run stays until the exhibit says otherwise."""
    file = tmp_path / "a.csv"
    added = values(("a", 0, 0.25)).assign(figure="share")
    write_results(file, "table1", "quick", pd.concat([values(("a", 0, 0.5)), added]))
    commit[0] = "c2"

    write_results(file, "table1", "quick", values(("a", 0, 0.5)), again=False, part=True)

    found = read_results(file)
    assert found["figure"].tolist() == ["accuracy", "share"]
    assert set(found["commit"]) == {"c1"}


def test_an_undefined_value_that_was_defined_repeats_nothing(
    tmp_path: Path, commit: list[str]
) -> None:
    """How far apart they are is not known either; undefined twice is the same."""
    file, nan = tmp_path / "a.csv", float("nan")
    write_results(file, "table1", "quick", values(("a", 0, nan), ("b", 0, nan), ("c", 0, 0.5)))
    commit[0] = "c2"

    write_results(file, "table1", "quick", values(("a", 0, 0.97), ("b", 0, nan), ("c", 0, 0.5)))

    (row,) = pd.read_csv(tmp_path / "repeats.csv").to_dict("records")
    assert (row["values"], row["equal"]) == (3, 2)
    assert pd.isna(row["largest"])
