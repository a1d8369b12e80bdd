"""docs/notebook.ipynb runs from top to bottom, twice, without Jupyter."""

from __future__ import annotations

import ast
import json
import linecache
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simfl.common.html import html_of, titled
from simfl.study.loaded import load_study
from tests.test_public_names import wrong_imports
from tests.test_python_calls import run_in_this_process

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"
CELLS = [
    "".join(cell["source"])
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


def executed(cells: list[str], space: dict[str, Any]) -> list[Any]:
    """What each cell ends with; its source is known as IPython makes it known."""
    shown = []
    for number, cell in enumerate(cells):
        name = f"<cell {number} of {id(space)}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        *before, last = ast.parse(cell).body
        is_value = isinstance(last, ast.Expr)
        module = ast.Module(before if is_value else [*before, last], [])
        exec(compile(module, name, "exec", dont_inherit=True), space)
        code = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        shown.append(eval(compile(code, name, "eval"), space) if code else None)
    return shown


def test_the_notebook_runs_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FedCure's scheduler is changed in 20 lines; results are displayed as in a notebook."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("simfl.study.session.run_locally", run_in_this_process)
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    space = vars(module)

    population, run, _, changed, study, differences, figure = executed(CELLS, space)
    monkeypatch.setattr("simfl.runs.execution.simulate", None)  # from now on nothing can be run
    again = executed(CELLS[:4], space)

    (own,) = (cell for cell in CELLS if "class OwedFirst" in cell)
    assert len(own.partition("@dataclass")[2].splitlines()) <= 20
    assert run.path != changed.path
    assert again[1].path == run.path and again[3].path == changed.path
    assert ">paper<" in population._repr_html_()
    for one in (run, changed):
        assert f"{one.rounds['accuracy'].iloc[-1]:.4f}" in one._repr_html_()
    assert study._repr_html_().count("<tr>") == 1 + 2
    assert set(study.table["decisions.scheduling"]) == {"fedcure", "OwedFirst"}
    assert list(differences["decisions.scheduling"]) == ["OwedFirst"]
    assert len(figure.axes[0].lines) >= 2


def test_the_notebook_imports_what_is_public_and_holds_no_results() -> None:
    """Its results are created by running it."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]

    assert [*wrong_imports("\n".join(CELLS))] == []
    assert not any(cell.get("outputs") for cell in cells)


def test_names_are_shown_and_never_obeyed() -> None:
    """In every cell and title; a part without keys is its name, groups are one table."""
    bad, good = "<script>", "&lt;script&gt;"
    groups = [{"device": bad}, {"device": "b", "share": 0.5}]

    shown = [html_of({bad: [bad, None], "part": {"name": bad}}), titled(bad, "", bad)]
    table = html_of(groups)

    assert not any(bad in one for one in [*shown, table])
    assert shown[0].count(good) == 3 and shown[1].count(good) == 2
    assert shown[0].count("<table>") == 1
    assert table.count("<tr>") == 3 and table.count("<th") == 2 + 1  # with <thead>


@pytest.mark.slow
def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, in one folder."""
    monkeypatch.chdir(tmp_path)
    page = NOTEBOOK.with_suffix(".md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)

    executed(blocks, vars(module))

    assert len(load_study("runs/rates").completed) == 4
    assert [one.name.rpartition("_")[0] for one in Path("runs/parts").iterdir()] == ["lowest_first"]
