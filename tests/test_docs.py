"""docs/ says what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from docs import make_reference
from simfl.decisions.views import AssociationView, ClientView, EdgeView
from simfl.eventlog.accounts import Accounts
from simfl.system.moments import Moment

DOCS = Path(make_reference.__file__).parent
PLUGINS = (DOCS / "plugins.md").read_text(encoding="utf-8")
ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")


def test_the_reference_is_up_to_date() -> None:
    """scenario.md and profiles.md are what `python docs/make_reference.py` would write now."""
    assert (DOCS / "scenario.md").read_text(encoding="utf-8") == make_reference.scenario_reference()
    assert (DOCS / "profiles.md").read_text(encoding="utf-8") == make_reference.profiles_reference()


def test_the_code_in_the_plugins_page_is_that_of_the_examples() -> None:
    """plugins.md is what `python docs/make_reference.py` would write now."""
    assert make_reference.plugins_page() == PLUGINS


def test_every_example_is_shown() -> None:
    """No example file is left out of plugins.md, no app's folder out of flower.md."""
    apps = [file.parent for file in (DOCS / "examples").glob("*/pyproject.toml")]
    for app in apps:
        assert f"examples/{app.name}" in (DOCS / "flower.md").read_text(encoding="utf-8")
    for file in sorted((DOCS / "examples").rglob("*.*")):
        if "__pycache__" not in file.parts and not set(apps) & set(file.parents):
            assert f"<!-- {file.relative_to(DOCS)}" in PLUGINS


@pytest.mark.parametrize("view", [ClientView, EdgeView, AssociationView])
def test_every_field_of_a_view_is_documented(view: type) -> None:
    """What a decision may look at stands in plugins.md."""
    for field in dataclasses.fields(view):
        assert f"`{field.name}`" in PLUGINS


def test_the_files_that_the_architecture_page_names_are_there() -> None:
    """With their folders, except those of old names; the last section lists these."""
    now = ARCHITECTURE.partition("## 7. ")[0]
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", now))

    package = DOCS.parent / "simfl"
    assert len(named) > 40
    assert not [
        one for one in named if not any((at / one).exists() for at in (package, DOCS.parent))
    ]


def test_the_architecture_page_has_the_moments_and_laws_of_the_code() -> None:
    """The moments in their order, and every law that a manifest names."""
    section = ARCHITECTURE.partition("## 5. ")[2].partition("## 6. ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.M) == [one.name for one in sorted(Moment)]

    accounts = Accounts(np.zeros(1), 1, ["download", "upload"], states=[])
    for law in accounts.close(0.0):
        assert f"| {law}" in ARCHITECTURE
