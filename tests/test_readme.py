"""README.md does what it says: its blocks are run from top to bottom, in one folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simfl.assembly import registry
from simfl.cli.app import app
from simfl.study import session
from simfl.study.figure_text import in_cell, relative_in_cell
from simfl.study.hardware import (
    HOLDS,
    hardware_differences,
    hardware_intervals,
    in_interval,
    in_probability,
)
from simfl.study.loaded import LoadedStudy, load_study
from simfl.study.means import point_means
from simfl.study.worker import work

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)

NOT_RUN = {
    "make demo",
    "make test",
    "python3 -m venv .venv && .venv/bin/python -m pip install torch==2.13.0 torchvision==0.28.0"
    ' --index-url "$CPU_INDEX"',
    "python3 -m venv .venv && .venv/bin/python -m pip install -c constraints.txt -e .",
    # what `make demo` runs; tests/test_scenarios.py runs the scenario
    ".venv/bin/simfl run scenarios/quickstart.yaml --out runs/quickstart",
}
"""Commands that install, which a test must not."""

SMALLER = {
    "[1000, 1000]": "[64, 64]",
    "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]": "[0, 1]",
    "{draws: 20}": "{draws: 2}",
    "--draws 20": "--draws 2 --seeds 0",
}
"""The first scenario's network and the studies' runs, whose training takes seconds."""


def rows_of(names: str) -> list[list[str]]:
    """The rows of a table that begin so, in cells without the first."""
    rows = re.findall(rf"^\| (?:{names}) *\|(.*)\|$", TEXT, re.MULTILINE)
    assert len(rows) == 4
    return [[cell.strip() for cell in row.split("|")] for row in rows]


def error_bars(study: LoadedStudy) -> list[list[str]]:
    """The cells of the table at the top, without what the settings are called."""
    found: dict[str, list[str]] = {}
    for metric, unit in zip(study.metrics, ("s", "J"), strict=True):
        over = hardware_intervals(study.table, study.drawn, metric).set_index("point")
        asked = (metric, "variant", "as it is", study.factors)
        against = hardware_differences(study.table, study.drawn, *asked).set_index("variant")
        means = point_means(study.table, study.factors, [metric])
        for mean in means.to_dict("records"):
            name, machines = mean["variant"], over.loc[mean["point"]]
            elsewhere = in_interval(machines["low"], machines["high"])
            number, half = in_cell(mean, metric).split(" ")
            cells = found.setdefault(name, [])
            cells.append(f"{number} {half} {unit} ({elsewhere})")
            if name == "as it is":
                cells += ["", ""]
            else:
                one = against.loc[name].to_dict()
                cells.append(relative_in_cell(one))
                cells.append(in_probability(*(one[name] for name in HOLDS)))
    return list(found.values())


def command_lines(block: str) -> list[str]:
    """The commands of a shell block, without comments."""
    return [line.partition(" #")[0].strip() for line in block.splitlines() if line.strip()]


def saved(block: str) -> Path | None:
    """The file that a block is, where its first line is a comment with a file's name."""
    name = re.match(r"# (\w+\.(?:yaml|py))\n", block)
    if name is None:
        return None
    path = Path(name.group(1))
    path.write_text(block, encoding="utf-8")
    return path


def sized(text: str, *, whole: bool) -> str:
    """A block or a line, as a `whole` or with the replacements in `SMALLER`."""
    for large, small in SMALLER.items():
        assert large in TEXT
        text = text if whole else text.replace(large, small)
    return text


def simfl(line: str) -> None:
    """Run a command line of simfl."""
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, f"{line}: {result.output}"


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_blocks_work_from_top_to_bottom(
    *,
    whole: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Scenarios validate, commands succeed, Python runs; only what installs is left out.

    The study's points run in this process; those of tests/study/test_processes.py have their own.
    As a whole, the study is the table at the top, and single runs are that of one seed.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "run_locally", lambda tasks, workers, watch: map(work, tasks))
    skipped = set()
    for language, block in BLOCKS:
        path = saved(sized(block, whole=whole))
        if language == "yaml":
            assert path is not None, f"a scenario without a file name: {block}"
            if "\nscenario:" not in block:  # a study, which its command checks
                simfl(f"simfl validate {path}")
        elif language == "python" and path is None:
            exec(compile(block, "README.md", "exec"), {})
        elif language == "sh":
            for line in command_lines(block):
                if line.startswith("simfl "):
                    simfl(sized(line, whole=whole))
                else:
                    skipped.add(line)
        else:
            assert path is not None, f"a block that is not tried: {block}"

    assert skipped == NOT_RUN
    printed = capsys.readouterr().out
    assert "J to 50 % accuracy" in printed
    assert "nan" not in printed.partition("first to 90 %:")[2]
    bars = error_bars(load_study(tmp_path / "runs" / "whatif"))
    assert (bars == rows_of("as it is|clocks at 60 %|phones on Wi-Fi|chosen by Oort")) == whole
    names = ("first", "slow", "wifi", "oort")
    for run, shown in zip(names, rows_of("|".join(names)), strict=True):
        time, joules, *parts = shown
        where = zip(("computing", "radio", "waiting"), parts, strict=True)
        lines = f"{run} to 90 %: {time}, {joules}\n" + ", ".join(map(" ".join, where))
        assert (lines in printed) == whole


def test_the_table_of_what_is_implemented_is_complete() -> None:
    """Every part that ships stands in the table, and nothing else does."""
    table = (ROOT / "docs" / "implemented.md").read_text(encoding="utf-8")
    told = set(
        re.findall(r"`([a-z0-9_]+)`", "".join(re.findall(r"^\|[^|]*\|([^|]*)\|", table, re.M)))
    )
    kinds = set(registry.KINDS) - {"processors", "links"}

    assert told == {name for kind in kinds for name in registry.names(kind)}


def test_the_pinned_torch_is_the_one_that_the_text_names() -> None:
    """README and constraints.txt name the same versions."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")

    for package in ("torch", "torchvision"):
        version = re.search(rf"^{package}==(\S+)$", constraints, re.MULTILINE)
        assert version is not None
        assert f"{package}=={version.group(1)}" in TEXT


def test_linked_files_exist() -> None:
    """Relative links lead somewhere."""
    for target in re.findall(r"\]\((?!http)([^)#]+)", TEXT):
        assert (ROOT / target).exists(), target
