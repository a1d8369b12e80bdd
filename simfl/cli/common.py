"""What several commands share: options, and how errors become exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

BAD_INPUT, DIVERGED, INTERRUPTED, FAILED = 2, 3, 130, 1

DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Folder of the data sets (else SIMFL_DATA).")
]


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn errors into one line on standard error and the documented exit code."""
    # By name: the modules that define them are heavy, and imported by then or never needed.
    codes = dict.fromkeys(
        (
            "BadShard",
            "ScenarioError",
            "CatalogueError",
            "TraceError",
            "FolderInUse",
            "MissingPlotly",
            "MissingRay",
            "MissingTool",
            "ReplayDiffers",
            "RunFolderError",
            "UnknownListing",
        ),
        BAD_INPUT,
    )
    codes |= dict.fromkeys(("Diverged", "StandaloneDiverged"), DIVERGED)
    codes |= dict.fromkeys(("Stalled", "RunFailed", "UtilityNotPositive"), FAILED)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(
            "simfl: interrupted; what was written can be read and resumed",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, RuntimeError, OSError) as error:
        name = type(error).__name__
        if name not in codes and not isinstance(error, OSError):
            raise
        typer.echo(f"simfl: {error}", err=True)
        raise typer.Exit(codes.get(name, FAILED)) from None
