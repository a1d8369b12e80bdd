"""Keeps the manifest of a run under way, and completes it however the run ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from simfl.assembly.kept_state import KeptState
from simfl.assembly.shared_generators import SharedGenerators
from simfl.assembly.simulation import Simulation
from simfl.common.contract import is_users_own
from simfl.common.notices import Notice, befallen, carried, notice
from simfl.common.part_name import part_name
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.run import Run
from simfl.provenance.journal import Journal
from simfl.provenance.snapshots import Checkpoints
from simfl.runs.files import JOURNAL, free_reserve
from simfl.runs.misleading_measures import misleading_figures
from simfl.runs.outcome import figures, leave
from simfl.runs.runfolder import described_files, load_run, write_manifest
from simfl.runs.warning_rules import drawn_from, foreseen, found, kept_between

Manifest = dict[str, Any]


class Recorder:
    """The manifest of a run in a folder, which always has the current status, and its warnings.

    `warnings` are the problems found in the folder of a resumed run, `before` the incidents until
    its interruption. It is made before the run's parts do anything, so that it sees what they
    change.
    """

    def __init__(
        self,
        simulation: Simulation,
        folder: Path,
        manifest: Manifest,
        journal: Journal,
        *,
        warnings: Sequence[Notice],
        before: Sequence[Notice],
    ) -> None:
        self._began = time.perf_counter()
        self._shared = SharedGenerators()
        self._kept = KeptState(simulation.parts.values())
        self._simulation, self._folder, self._journal = simulation, folder, journal
        self._manifest, self._as_begun = manifest, dict(manifest)
        self._before, self._noticed = before, list(warnings)
        self._known_before: Sequence[Notice] = ()

    def foresee(self) -> None:
        """Note what can be known before the run."""
        self._known_before = foreseen(self._simulation)

    def not_begun(self, status: str, reason: str) -> None:
        """The run could not begin."""
        with suppress(OSError):
            write_manifest(self._folder, {**self._manifest, "status": status, "reason": reason})

    def keep_incidents(self, values: LearnedValues) -> None:
        """What has befallen the run is kept with what it has computed: it may be cut off."""
        if befell := befallen(values.notices()):
            so_far = [each.as_dict() for each in carried(self._before, befell)]
            if so_far != self._manifest["warnings"]:
                self._manifest["warnings"] = so_far
                write_manifest(self._folder, self._manifest)

    def measure(self, one: Run, reason: str) -> None:
        """Note what was odd in a run that has come to its end, and compute its measures."""
        self._noticed += found(self._simulation, one)
        self._manifest.update(figures(one), reason=reason)
        write_manifest(self._folder, self._manifest)  # measures read the run as its user will
        ref = one.publications.latest
        weights = ref.value().weights if ref else None
        loaded = load_run(self._folder)
        if self._simulation.parts[("population",)].build_batteries(self._simulation.world):
            from simfl.runs.battery_levels import battery_figures  # pandas, for these runs alone

            self._manifest |= battery_figures(loaded)
        self._manifest["measures"] = self._simulation.measured(loaded, weights)
        of_events = [
            part_name(type(one))
            for one in self._simulation.measures
            if is_users_own(one) and not one.learned
        ]
        if of_events:
            self._manifest["measures_of_events"] = of_events
        self._noticed += misleading_figures(loaded, self._manifest["measures"])

    def close(self, one: Run, status: str, reason: str | None) -> None:
        """Write the final manifest; raises `OSError`."""
        self._manifest.update(status=status, reason=reason)
        self._manifest.update(figures(one))
        notices = [
            *self._noticed,
            *one.warnings,
            *self._damage(),
            *self._drawn(),
            *kept_between(self._kept.changed()),
            *self._known_before,
        ]
        self._manifest["warnings"] = [each.as_dict() for each in carried(self._before, notices)]
        self._manifest["wall_s"] = round(time.perf_counter() - self._began, 3)
        self._manifest["files"] = described_files(self._folder)
        write_manifest(self._folder, self._manifest)

    def break_off(self, one: Run, checkpoints: Checkpoints, status: str, reason: str) -> None:
        """Write what there is; if the disk is what failed, some of it may not be written.

        Rows to be written may fail as well: what a protocol reported about them may have ended the
        run.
        """
        for step in (partial(leave, one, self._folder), partial(checkpoints.take, one.values)):
            with suppress(Exception):
                step()
        try:
            self.close(one, status, reason)
        except OSError:
            free_reserve(self._folder)
            try:
                self.close(one, status, reason)
            except OSError:
                # If the first manifest had room, one that says less has room, too.
                slim = {**self._as_begun, "trained_by": [], "status": status, "reason": reason}
                with suppress(OSError):  # the folder is gone: nothing can be reported
                    write_manifest(self._folder, slim)

    def _drawn(self) -> list[Notice]:
        """Generators that everybody shares, and that parts drew from.

        Code that brings its own values gets these generators, seeded, until the values are closed.
        """
        used = () if self._simulation.protocol.brings_values else self._shared.used()
        return list(drawn_from(dict.fromkeys([*self._simulation.drew_from, *used])))

    def _damage(self) -> list[Notice]:
        """Damage found in stored files."""
        notices, journal = [], self._journal
        if journal.damaged:
            lines = f"{journal.damaged} damaged lines"
            message = f"{self._folder / JOURNAL}: {lines}; their content was computed again"
            notices.append(notice("damaged_journal", message, journal.damaged))
        damaged = getattr(journal.shared, "damaged", 0)
        if damaged:
            message = f"shared results: {damaged} damaged entries, not used"
            notices.append(notice("damaged_store", message, damaged))
        return notices
