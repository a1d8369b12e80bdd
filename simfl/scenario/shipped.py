"""Scenarios that come with simfl, by their names."""

from __future__ import annotations

from pathlib import Path


def shipped_scenarios() -> dict[str, Path]:
    """Scenarios by name: those inside an installed package, else the checkout's folder."""
    package = Path(__file__).parents[1]
    inside = package / "_data" / "scenarios"
    folder = inside if inside.is_dir() else package.parent / "scenarios"
    return {
        str(path.relative_to(folder).with_suffix("")): path
        for path in sorted(folder.rglob("*.yaml"))
        if "studies" not in path.relative_to(folder).parts
    }


def scenario_path(name: Path | str) -> Path:
    """The file that is meant: a path, or a shipped scenario by its name."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    return shipped_scenarios().get(str(name), path)
