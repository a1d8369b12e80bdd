"""`simfl.run`: runs a scenario from Python, and chooses its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from simfl.assembly.assemble import outlined
from simfl.assembly.simulation import Options
from simfl.common.own_version import own_version
from simfl.console.watched import watched
from simfl.runs import execution
from simfl.runs.runfolder import MANIFEST, LoadedRun, RunFolderError, read_manifest
from simfl.scenario.plugins import is_import_path, plugin_file
from simfl.scenario.scenario import Scenario


def run(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    out: Path | str | None = None,
    options: Options | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
) -> LoadedRun:
    """Runs a scenario into the folder `out`, and returns the loaded run.

    The scenario may be a YAML file, the name of a shipped one ("quickstart"), or a mapping, in
    which a part may be a class. Progress is shown in a terminal or a notebook.

    Calling it again needs no flag: if the folder holds this same run, a finished one is loaded and
    an interrupted one is continued. `out` defaults to `runs/<name>-seed<seed>`; if another run is
    there, the beginning of this one's digest is added to the name. With `overwrite` the folder's
    run is repeated, with `resume` it is never started from the beginning.

    Raises `ScenarioError` before anything is written if the scenario is wrong; `FolderInUse` if
    `out` holds something else (except a run that failed before its first version, which is
    replaced), or if a run is in progress there; `RunFolderError` if its content is damaged;
    `Diverged` and `Stalled` after leaving a readable folder.
    """
    asked, options = Scenario.of(scenario), options or Options()
    folder = Path(out) if out is not None else execution.default_folder(asked)
    if not (overwrite or resume):
        placed = asked.below(options.data_root)
        folder, overwrite, resume = _place(placed, folder, is_asked=out is not None)
    if options.watch is not None or not watched():
        return execution.run(asked, folder, options, overwrite=overwrite, resume=resume)
    from simfl.console.run import Watcher  # rich takes a while to import

    with Watcher(asked) as watcher:
        shown = replace(options, watch=watcher.update)
        return execution.run(asked, folder, shown, overwrite=overwrite, resume=resume)


def _place(scenario: Scenario, folder: Path, *, is_asked: bool) -> tuple[Path, bool, bool]:
    """The folder of a run, whether to overwrite it, and whether to resume it."""
    earlier = _manifest(folder)
    if earlier is None:
        return folder, False, False
    digest = outlined(scenario).digest
    if earlier["digest"] != digest:
        if is_asked:
            return folder, False, False
        folder = folder.with_name(f"{folder.name}-{digest[:8]}")
        earlier = _manifest(folder)
        if earlier is None:
            return folder, False, False
    # Not in the digest: other versions, and code that is known only by its name.
    here = {"simfl": own_version(), "torch": torch.__version__}
    same = earlier.get("versions") == here and not _has_code_by_name(scenario)
    goes_on = same and earlier["status"] in ("completed", "interrupted", "running")
    return folder, not goes_on, goes_on


def _manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of the run in a folder; None if there is none or it is unreadable."""
    try:
        return read_manifest(folder) if (folder / MANIFEST).exists() else None
    except RunFolderError:
        return None


def _has_code_by_name(scenario: Scenario) -> bool:
    """Whether a part's class is imported by its module's name, so its code may have changed."""
    named = [part.name for _, part in scenario.parts().values() if is_import_path(part.name)]
    return any(plugin_file(one, scenario.base_dir) is None for one in named)
