"""Scenarios that come with simfl, by their names."""

from __future__ import annotations

from pathlib import Path

from simfl.common.suggestion import nearest
from simfl.scenario.yaml_source.error import ScenarioError


def shipped_scenarios() -> dict[str, Path]:
    """Scenarios by name: from the installed package, or the checkout's folder."""
    package = Path(__file__).parents[1]
    inside = package / "_data" / "scenarios"
    folder = inside if inside.is_dir() else package.parent / "scenarios"
    return {
        str(path.relative_to(folder).with_suffix("")): path
        for path in sorted(folder.rglob("*.yaml"))
        if "studies" not in path.relative_to(folder).parts
    }


def scenario_path(name: Path | str) -> Path:
    """The scenario file of a path or of a shipped scenario's name; raises ScenarioError."""
    path, said = Path(name), str(name)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    known = shipped_scenarios()
    if said not in known:
        namesakes = [one for one in known if one.rpartition("/")[2] == said]
        hint = nearest(namesakes[0] if namesakes else said, known) or ";"
        none = f"no such file, and no shipped scenario of that name{hint}"
        message = f"{none} `simfl list scenarios` lists them"
        raise ScenarioError(said, None, "", "no such file", "a scenario", message)
    return known[said]
