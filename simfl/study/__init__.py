"""What-if studies: many runs of one scenario with varied keys, and their comparison.

`simfl.study(...)` runs one. `simfl.study` is both the function and this package: the package can be
called, so it makes no difference which of its modules were imported before.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.study.loaded import LoadedStudy


class _Callable(ModuleType):
    def __call__(
        self,
        study: Mapping[str, Any] | str | Path,
        out: Path | str | None = None,
        *,
        workers: int | None = None,
        data_root: Path | None = None,
        device: str = "auto",
    ) -> LoadedStudy:
        from simfl.study.from_python import study as run_study

        return run_study(study, out, workers=workers, data_root=data_root, device=device)


sys.modules[__name__].__class__ = _Callable
