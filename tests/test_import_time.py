"""What is heavy is loaded when it is needed: by the command line, and by a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# torch takes about a second; each of the others breaks the 0.3 s of `simfl --help` or half of it.
HEAVY = ("torch", "torchvision", "sklearn", "pandas", "scipy", "matplotlib", "pyarrow")

# A run needs torch and pyarrow; each of these takes more than a tenth of a second, and memory.
NOT_FOR_A_RUN = {"torchvision", "sklearn", "pandas", "scipy", "matplotlib", "plotly"}
NOT_FOR_A_RUN |= {"torch._dynamo"}  # a compiler: counting operations does without

READY = """
import tempfile
from pathlib import Path
import simfl.runs.execution
from simfl.assembly.assemble import assemble
from simfl.provenance.journal import Journal
from simfl.scenario.scenario import Scenario
scenario = Scenario.from_mapping({
    "name": "small",
    "data": {"name": "digits", "partition": "iid"},
    "model": {"name": "mlp", "hidden": [12]},
    "population": {"name": "paper", "clients": 2, "edges": 1},
    "algorithm": {"name": "fedavg", "local": {"learning_rate": 0.1}},
    "protocol": "synchronous",
    "stop": {"versions": 1},
})
with tempfile.TemporaryDirectory() as folder:
    assemble(scenario).make_run(Path(folder), Journal())
"""


def loaded_by(code: str) -> set[str]:
    """Modules loaded by a fresh interpreter that runs the code."""
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded_modules() -> set[str]:
    """Those of the command line."""
    return loaded_by("import simfl, simfl.cli.app")


def test_a_run_is_made_ready_without_what_only_its_reader_needs() -> None:
    """Nor without the libraries of parts that it does not use."""
    loaded = loaded_by(READY)

    assert "torch" in loaded
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
