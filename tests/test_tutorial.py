"""docs/tutorial.md does what it says, and the site of the documentation is whole."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.site_pages import algorithms_page, home_page, papers
from simfl.assembly import registry
from simfl.cli.app import app
from simfl.study.loaded import load_study

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are saved under the name in their first line, commands succeed, Python runs; the
    study's second device trains nothing, as the text says."""
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    for language, block in BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text("utf-8")):
        named = re.match(r"# (\w+\.(?:yaml|py))\n", block)
        if named:
            Path(named[1]).write_text(block, encoding="utf-8")
        elif language == "python":
            exec(compile(block, "tutorial.md", "exec"), {})
        else:
            assert language == "sh"
            for line in block.strip().splitlines():
                result = CliRunner().invoke(app, shlex.split(line)[1:])
                assert result.exit_code == 0, f"{line}: {result.output}"

    table = load_study("runs/clipping").table
    assert len(table) == 18
    means = table.groupby(["variant", "seed"])["accuracy"].nunique()
    assert (means == 1).all()


def test_every_algorithm_has_its_header_on_the_site() -> None:
    """Papers, symbols and departures, as in the files."""
    page = algorithms_page()

    for name in registry.names("algorithms"):
        assert f"\n## {name}\n" in page
    assert "Departures from the paper: 1." in page


def test_links_of_the_home_page_lead_into_the_docs() -> None:
    """README's links are relative to docs/ there."""
    links = re.findall(r"\]\((?!http)([^)#]+)", home_page())

    assert links
    assert all((ROOT / "docs" / link).exists() for link in links)


def test_every_page_is_in_the_navigation() -> None:
    """What lies in docs/ is found from the site's menu."""
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")

    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in menu
    listed = [path for entry in papers() for path in entry.values()]
    pages = (ROOT / "docs" / "papers").glob("*.md")
    assert listed == sorted(f"papers/{page.name}" for page in pages)


def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    """mkdocs in strict mode: no broken link or anchor, no page left out."""
    pytest.importorskip("mkdocs")

    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "WARNING -" not in done.stderr
    for page in ("index", "tutorial", "algorithms", "scenario"):
        assert (tmp_path / "site" / f"{page}.html").exists()
