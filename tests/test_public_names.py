"""What is public stands in docs/api.md, and the pages and examples for users need nothing else."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import simfl
import simfl.algorithms
import simfl.plugins
from docs.make_api import PUBLIC, api_page
from simfl.assembly import registry

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOR_DEVELOPERS = {"api.md", "architecture.md", "decisions.md"}
PAGES = [
    ROOT / "README.md",
    *sorted(one for one in DOCS.glob("*.md") if one.name not in FOR_DEVELOPERS),
    *sorted((DOCS / "papers").glob("*.md")),
]
MODULES = [importlib.import_module(name) for name in PUBLIC]


def test_the_page_of_public_names_is_up_to_date() -> None:
    """A name that goes, or another signature, needs the page: `python docs/make_reference.py`.

    And a note in CHANGELOG.md; what breaks users needs another first number of `API_VERSION`.
    """
    assert (DOCS / "api.md").read_text(encoding="utf-8") == api_page()


def test_the_page_tells_names_signatures_and_fields_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost name, another argument and another method each make another page."""
    pages = [api_page()]

    def add(base: object, delta: object, scale: float = 2.0) -> object:
        return base

    for module, name, value in (
        (simfl.plugins, "add", add),
        (simfl.plugins.Update, "rebased", lambda self, weights: self),
        (simfl.plugins, "__all__", [one for one in simfl.plugins.__all__ if one != "Work"]),
        (simfl.plugins, "API_VERSION", "2.0"),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, value)
            pages.append(api_page())

    assert len(set(pages)) == len(pages)


@pytest.mark.parametrize("module", MODULES, ids=PUBLIC)
def test_every_public_name_is_there_and_says_what_it_is(module: ModuleType) -> None:
    """By attribute and by `dir`; classes and functions have a docstring."""
    assert set(module.__all__) <= set(dir(module))
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def test_all_shipped_algorithms_are_public() -> None:
    """Under their classes' names."""
    shipped = {registry.resolve("algorithms", one, ROOT) for one in registry.names("algorithms")}

    assert {getattr(simfl.algorithms, name) for name in simfl.algorithms.__all__} == shipped


def wrong_imports(code: str) -> Iterator[str]:
    """What Python code imports of simfl that is not public."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (
                one.name
                for one in node.names
                if one.name.startswith("simfl.") and one.name not in PUBLIC
            )
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "simfl":
            known = importlib.import_module(node.module).__all__ if node.module in PUBLIC else ()
            names = {one.name for one in node.names} - set(known)
            yield from (f"{node.module}.{name}" for name in sorted(names))


def wrong_names(text: str) -> Iterator[str]:
    """What a page's text calls by a path that is not public, or by a name that is none."""
    for path in re.findall(r"`(simfl(?:\.\w+)+)[`(]", text):
        module, _, name = path.rpartition(".")
        if path not in PUBLIC and (module not in PUBLIC or name not in _names(module)):
            yield path


def _names(module: str) -> list[str]:
    return [*importlib.import_module(module).__all__, "plugins", "algorithms"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_and_imports_what_is_public(page: Path) -> None:
    """Its Python blocks, and the paths in its text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)

    assert [*wrong_names(text), *(one for block in blocks for one in wrong_imports(block))] == []


@pytest.mark.parametrize(
    "file", sorted((DOCS / "examples").glob("*.py")), ids=lambda file: file.stem
)
def test_an_example_imports_what_is_public(file: Path) -> None:
    """Nothing from deeper below simfl."""
    assert [*wrong_imports(file.read_text(encoding="utf-8"))] == []


def test_what_is_not_public_is_found() -> None:
    """Deeper modules, names that are none, and paths in a text."""
    code = """
import simfl, simfl.plugins, simfl.study
from simfl.plugins import Algorithm, Nothing
from simfl.learning.job import Brief
"""
    text = "`simfl.run` and `simfl.plugins.Update`, `simfl.eventlog.kinds` and `simfl.nothing(x)`"

    assert [*wrong_imports(code)] == [
        "simfl.study",
        "simfl.plugins.Nothing",
        "simfl.learning.job.Brief",
    ]
    assert [*wrong_names(text)] == ["simfl.eventlog.kinds", "simfl.nothing"]


def test_every_base_class_of_a_part_is_public() -> None:
    """An error that names it names where it is to be had."""
    bases = {kind.base for kind in registry.KINDS.values() if kind.base.startswith("simfl.")}

    assert len(bases) > 10
    assert {base.partition(":")[2] for base in bases} <= set(simfl.plugins.__all__)
