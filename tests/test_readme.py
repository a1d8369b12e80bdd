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

SMALLER = {"[1000, 1000]": "[64, 64]", "{stop.versions: 15}": "{stop.versions: 3}"}
"""The first scenario's network and the study's runs, whose training takes seconds."""


def levers() -> list[list[str]]:
    """The rows of the table at the top, without what they are called."""
    rows = re.findall(r"^\| (?:as it is|clocks|phones|clients) [^|]*\|(.*)\|$", TEXT, re.MULTILINE)
    assert len(rows) == 4
    return [[cell.strip() for cell in row.split("|")] for row in rows]


def command_lines(block: str) -> list[str]:
    """The commands of a shell block, without comments."""
    return [line.partition(" #")[0].strip() for line in block.splitlines() if line.strip()]


def saved(block: str, *, whole: bool) -> Path | None:
    """The file that a block is, where its first line is a comment with a file's name.

    As a `whole`, or with what is `SMALLER`.
    """
    name = re.match(r"# (\w+\.(?:yaml|py))\n", block)
    if name is None:
        return None
    path = Path(name.group(1))
    for text, smaller in SMALLER.items():
        assert text in TEXT
        block = block if whole else block.replace(text, smaller)
    path.write_text(block, encoding="utf-8")
    return path


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
    As a whole, what is printed is the table at the top.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "run_locally", lambda tasks, workers, watch: map(work, tasks))
    skipped = set()
    for language, block in BLOCKS:
        path = saved(block, whole=whole)
        if language == "yaml":
            assert path is not None, f"a scenario without a file name: {block}"
            if "\nscenario:" not in block:  # a study, which its command checks
                simfl(f"simfl validate {path}")
        elif language == "python" and path is None:
            exec(compile(block, "README.md", "exec"), {})
        elif language == "sh":
            for line in command_lines(block):
                if line.startswith("simfl "):
                    simfl(line)
                else:
                    skipped.add(line)
        else:
            assert path is not None, f"a block that is not tried: {block}"

    assert skipped == NOT_RUN
    printed = capsys.readouterr().out
    assert "J to 50 % accuracy" in printed
    assert "nan" not in printed.partition("first to 90 %:")[2]
    for run, shown in zip(("first", "slow", "wifi", "oort"), levers(), strict=True):
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
