"""docs/ says what the code does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from docs import make_reference
from simfl.decisions.views import AssociationView, ClientView, EdgeView

DOCS = Path(make_reference.__file__).parent
PLUGINS = (DOCS / "plugins.md").read_text(encoding="utf-8")


def test_the_reference_is_up_to_date() -> None:
    """scenario.md is what `python docs/make_reference.py` would write now."""
    assert (DOCS / "scenario.md").read_text(encoding="utf-8") == make_reference.scenario_reference()


def test_the_code_in_the_plugins_page_is_that_of_the_examples() -> None:
    """plugins.md is what `python docs/make_reference.py` would write now."""
    assert make_reference.plugins_page() == PLUGINS


def test_every_example_is_shown() -> None:
    """No example file is left out of plugins.md."""
    for file in sorted((DOCS / "examples").rglob("*.*")):
        if "__pycache__" not in file.parts:
            assert f"<!-- {file.relative_to(DOCS)}" in PLUGINS


@pytest.mark.parametrize("view", [ClientView, EdgeView, AssociationView])
def test_every_field_of_a_view_is_documented(view: type) -> None:
    """What a decision may look at stands in plugins.md."""
    for field in dataclasses.fields(view):
        assert f"`{field.name}`" in PLUGINS
