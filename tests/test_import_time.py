"""What is heavy is loaded when it is needed: by the command line, and by a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# torch takes about a second; each of the others breaks the 0.3 s of `simfl --help` or half of it.
HEAVY = ("torch", "torchvision", "sklearn", "pandas", "scipy", "matplotlib", "pyarrow", "pydantic")

# A run needs torch and pyarrow, and Pillow for its picture; each of these takes more than a
# twentieth of a second, and memory: what a reader in Python needs, and parts that are not used.
NOT_FOR_A_RUN = {"torchvision", "sklearn", "pandas", "scipy", "matplotlib", "plotly"}
NOT_FOR_A_RUN |= {"torch._dynamo"}  # a compiler: counting operations does without
NOT_FOR_A_RUN |= {"pyarrow.compute", "pyarrow.dataset"}  # wrappers, and folders of tables

A_RUN = """
import tempfile
from pathlib import Path
from simfl.cli.app import app
with tempfile.TemporaryDirectory() as folder:
    scenario, out = Path(folder) / "small.yaml", Path(folder) / "run"
    scenario.write_text('''
name: small
data: {name: digits, partition: iid}
model: {name: mlp, hidden: [12]}
population: {name: paper, clients: 2, edges: 1}
algorithm: {name: fedavg, local: {learning_rate: 0.1}}
protocol: synchronous
stop: {versions: 1}
''')
    app(["run", str(scenario), "--out", str(out)], standalone_mode=False)
    assert (out / "overview.png").exists() and (out / "model.safetensors").exists()
"""


def loaded_by(code: str) -> set[str]:
    """Modules loaded by a fresh interpreter that runs the code."""
    code += "\nimport sys; print('modules:', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.partition("modules:")[2].split())


@pytest.fixture(scope="module")
def loaded_modules() -> set[str]:
    """The modules that the command line loads."""
    return loaded_by("import simfl, simfl.cli.app")


def test_a_run_does_without_what_only_its_reader_needs() -> None:
    """From the scenario to the summary and the picture; unused parts are not loaded either."""
    loaded = loaded_by(A_RUN)

    assert {"torch", "PIL.Image", "simfl.console.run"} <= loaded
    assert not loaded & NOT_FOR_A_RUN


@pytest.mark.parametrize("library", HEAVY)
def test_importing_the_command_line_leaves_out(library: str, loaded_modules: set[str]) -> None:
    """`import simfl, simfl.cli.app` must not load the library."""
    assert "simfl" in loaded_modules
    assert library not in loaded_modules


@pytest.mark.parametrize("collecting", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_is_imported_is_not_searched_for_garbage(*, collecting: bool) -> None:
    """Searching goes on afterwards, if it went on before."""
    code = f"""
import gc, json, simfl
{"gc.enable()" if collecting else "gc.disable()"}
before = gc.get_stats()[0]["collections"]
simfl.run
print(json.dumps([gc.get_stats()[0]["collections"] - before, gc.isenabled()]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    collections, enabled = json.loads(done.stdout)

    assert collections < 10
    assert enabled is collecting


def test_a_finished_study_is_read_without_what_draws_its_points() -> None:
    """Answers in tables take neither the library that trains nor a second of scipy.stats."""
    loaded = loaded_by("import simfl.study.finished, simfl.study.loaded, simfl.console.answers")

    assert "simfl.console.search" in loaded
    assert not loaded & {"torch", "sklearn", "matplotlib", "plotly", "scipy.stats"}
