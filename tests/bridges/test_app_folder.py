"""The content of an app's folder, and errors in it: Flower is not needed."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from simfl import flower
from simfl.assembly.assemble import outlined
from simfl.bridges import app_folder
from simfl.bridges.app_folder import (
    BadApp,
    digest_of_sources,
    forget_modules,
    fused,
    place_in,
    read_settings,
)
from simfl.cli.flower_command import _values
from simfl.scenario.yaml_source.error import ScenarioError
from tests.bridges.apps import write_app

PIS = {"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}
POPULATION = {"name": "catalogue", "clients": 3, "groups": [PIS]}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app's folder."""
    return write_app(tmp_path / "app")


def test_run_config_is_read_as_flower_does(app: Path) -> None:
    """The app's own values, with others in their place; nested keys are dotted."""
    settings = read_settings(app)

    assert fused(settings, {"rounds": 7})["rounds"] == 7
    assert fused({"config": {"a": {"b": 1, "c": 2}}}, {"a": {"c": 3}}) == {"a.b": 1, "a.c": 3}
    with pytest.raises(BadApp, match="unknown key 'round'; accepted: fails, fraction-evaluate"):
        fused(settings, {"round": 7})


def test_a_folder_without_an_app_is_told(tmp_path: Path) -> None:
    """What is missing, and in which file."""
    with pytest.raises(BadApp, match=r"pyproject\.toml: No such file"):
        read_settings(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.flwr.app.components]\nserverapp = 'a:b'\n")
    with pytest.raises(BadApp, match="names no clientapp"):
        read_settings(tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("small_app.client:app", "small_app.client:", "names no clientapp"),
        (
            "[tool.flwr.app.components]",
            "[tool.flwr.app]\ncomponents = 3\n[x]",
            "app.components is 3",
        ),
        ("[tool.flwr.app.config]", "[tool.flwr.app.config]\nlayers = [1, 2]", "layers is a list"),
        ("[tool.flwr.app.config]", "[tool.flwr.app.config]\nday = 2024-01-01", "day is a date"),
        ('version = "1.0.0"', "# \udce9", "no TOML"),
    ],
)
def test_settings_of_another_form_are_told(app: Path, before: str, after: str, told: str) -> None:
    """One line with the file and what is wrong in it."""
    file = app / "pyproject.toml"
    text = file.read_text(encoding="utf-8").replace('[tool.flwr.app]\npublisher = "tests"\n', "")
    file.write_bytes(text.replace(before, after).encode("utf-8", "surrogateescape"))

    with pytest.raises(BadApp, match=rf"pyproject\.toml: .*{told}") as caught:
        read_settings(app)
    assert "\n" not in str(caught.value)


def test_the_source_counts(app: Path) -> None:
    """An answer of other code has another key."""
    before = digest_of_sources(app, set())
    file = app / "small_app" / "client.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n# more\n", encoding="utf-8")

    assert digest_of_sources(app, set()) != before


def test_environments_in_the_folder_are_not_the_apps(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their source is not read and their modules are not unloaded; files are named by path."""
    before = digest_of_sources(app, set(sys.modules))
    (app / "env").mkdir()
    (app / "env" / "pyvenv.cfg").touch()
    for name, folder in (("installed_one", app / "env"), ("own_one", app)):
        (folder / f"{name}.py").touch()
        module = ModuleType(name)
        module.__file__ = str(folder / f"{name}.py")
        monkeypatch.setitem(sys.modules, name, module)
    (app / "own_one.py").unlink()
    assert digest_of_sources(app, set(sys.modules)) == before

    monkeypatch.setattr(app_folder, "_INSTALLED", (f"{app / 'env'}{os.sep}",))
    forget_modules(app)
    assert "installed_one" in sys.modules and "own_one" not in sys.modules

    server, client = app / "small_app" / "server.py", app / "small_app" / "client.py"
    (app / "client.py").write_bytes(server.read_bytes())
    one = digest_of_sources(app, set(sys.modules))
    (app / "client.py").write_bytes(client.read_bytes())
    client.write_bytes(server.read_bytes())
    assert digest_of_sources(app, set(sys.modules)) != one


def test_an_error_is_placed_in_the_app(app: Path) -> None:
    """By the last line of its own that it came through."""
    file = app / "wrong.py"
    file.write_text("\ndef f():\n    return int('x')\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("wrong", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    with pytest.raises(ValueError, match="invalid literal") as caught:
        module.f()
    assert place_in(app, caught.value).startswith("wrong.py:3: ValueError: invalid literal")

    file.write_text("def f():\n    assert False\n\nf(\n", encoding="utf-8")
    with pytest.raises(SyntaxError) as broken:
        spec.loader.exec_module(module)
    assert place_in(app, broken.value) == "wrong.py:4: SyntaxError: '(' was never closed"
    assert place_in(app, AssertionError()) == f"{app}: AssertionError"


def test_bad_input_is_one_clear_error(app: Path, tmp_path: Path) -> None:
    """With the key that is to blame; where Flower is absent that is said, too."""
    with pytest.raises(ScenarioError, match=r"protocol\.run_config: .*unknown key 'lr'"):
        outlined(flower.scenario(app, population=POPULATION, run_config={"lr": 1.0}))
    with pytest.raises(ScenarioError, match=r"protocol\.app: .*No such file"):
        outlined(flower.scenario(tmp_path / "nothing", population=POPULATION))
    base = tmp_path / "base.yaml"
    base.write_text("model: mlp\n", encoding="utf-8")
    with pytest.raises(ScenarioError, match="which the app brings"):
        flower.scenario(app, population=POPULATION, base=base)
    if importlib.util.find_spec("flwr") is None:
        with pytest.raises(ScenarioError, match="Flower is not installed"):
            outlined(flower.scenario(app, population=POPULATION))


def test_values_of_the_command_line_are_toml(tmp_path: Path) -> None:
    """Several may stand in one text, or all of them in a file, as `flwr run` takes them."""
    file = tmp_path / "config.toml"
    file.write_text("rounds = 3\n[optimizer]\nlr = 0.1\n", encoding="utf-8")
    assert _values([str(file)]) == {"rounds": 3, "optimizer": {"lr": 0.1}}
    with pytest.raises(typer.BadParameter, match="No such file"):
        _values([str(tmp_path / "none.toml")])
    assert _values(["rounds=3 lr=0.1", "tag='a b'", "on=true"]) == {
        "rounds": 3,
        "lr": 0.1,
        "tag": "a b",
        "on": True,
    }


def test_outside_of_a_run_there_is_the_machines_clock() -> None:
    """An app that asks for the time runs under plain Flower, too."""
    flower.record(accuracy=0.5)

    assert flower.now() <= flower.now()
