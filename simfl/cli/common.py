"""Shared by several commands: options, their messages, and exit codes of errors."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import format_exception
from typing import Annotated

import typer

from simfl.console.printable import printable
from simfl.scenario.plugins import users_code

BAD_INPUT, DIVERGED, INTERRUPTED, FAILED = 2, 3, 130, 1

NO_MEMORY = (
    "this machine has too little memory for it: fewer clients, shorter training, fewer"
    " examples or a smaller model take less"
)

DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Folder of the data sets (default: SIMFL_DATA).")
]

Traceback = Annotated[bool, typer.Option("--traceback", help="Show the call stack of an error.")]

Engine = Annotated[str, typer.Option(help="local, or ray: the Ray cluster of this machine.")]

# Errors whose text is for the user, with their exit codes. They are given by name: the modules that
# define them are slow to import, and are imported by then or never needed.
NAMED = (
    dict.fromkeys(
        (
            "BadShard",
            "ScenarioError",
            "CatalogueError",
            "ExportFailed",
            "TraceError",
            "FolderInUse",
            "MissingOptuna",
            "MissingPlotly",
            "MissingRay",
            "MissingTool",
            "NotDrawable",
            "ReplayDiffers",
            "RunFolderError",
            "UnknownListing",
        ),
        BAD_INPUT,
    )
    | dict.fromkeys(("Diverged", "StandaloneDiverged"), DIVERGED)
    | dict.fromkeys(
        (
            "AppFailed",
            "NoWorkers",
            "PartMisbehaves",
            "RunFailed",
            "Stalled",
            "UnusableAvailability",
            "UtilityNotPositive",
            "WorkerDied",
        ),
        FAILED,
    )
)

_OF_THE_PATH = {
    errno.EACCES,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENODEV,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.ENXIO,
    errno.EPERM,
    errno.EROFS,
}
"""Errors that another path would avoid; a full disk is not among them."""


def complete_scenario(incomplete: str) -> list[str]:
    """Shipped scenarios for shell completion; the shell completes files itself."""
    from simfl.scenario.shipped import shipped_scenarios

    return [name for name in shipped_scenarios() if name.startswith(incomplete)]


def check_engine(name: str) -> None:
    """Raises typer.BadParameter for an unknown engine."""
    if name not in ("local", "ray"):
        raise typer.BadParameter(f"found {name!r}, accepted: local or ray", param_hint="--engine")


def say(text: str, *, err: bool = False) -> None:
    """Print one line; unprintable characters in names are escaped."""
    typer.echo(printable(text), err=err)


@contextmanager
def exit_codes(*, traceback: bool = False) -> Iterator[None]:
    """Turn errors into one line on standard error and the documented exit code.

    With `traceback`, the call stack is printed before that line.
    """
    try:
        with _interrupted_by_sigterm():
            yield
    except KeyboardInterrupt:
        say("simfl: interrupted; whatever was written can be read and resumed", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # the reader of the output has gone: click ends quietly
    except (Exception, SystemExit) as error:  # a user's part may raise anything, or exit
        name = type(error).__name__
        if name in NAMED:
            code, reason = NAMED[name], str(error)
        elif (deed := users_code(error)) is not None:
            code, reason = FAILED, deed
        elif isinstance(error, OSError):
            code, reason = _of_a_file(error)
        elif isinstance(error, MemoryError):
            code, reason = FAILED, NO_MEMORY + (f" ({error})" if str(error) else "")
        else:
            raise
        if traceback:
            typer.echo("".join(format_exception(error)), err=True, nl=False)
    else:
        return
    say("simfl: " + re.sub(r"\s*[\r\n]\s*", " ", reason.strip()), err=True)
    raise typer.Exit(code)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Treats SIGTERM, which cluster schedulers send before they kill, like Ctrl-C, for an orderly
    end.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _of_a_file(error: OSError) -> tuple[int, str]:
    """Exit code and message for an error of the operating system; the path comes first if known."""
    path = error.filename if error.filename2 is None else error.filename2
    reason = str(error) if path is None else f"{os.fsdecode(path)}: {error.strerror}"
    number = error.errno
    if number == errno.EEXIST and path is not None and Path(os.fsdecode(path)).is_file():
        reason = f"{os.fsdecode(path)}: found a file, accepted: a folder"
    if number is None:  # raised by simfl itself, or by a library with its own message
        known = isinstance(error, FileNotFoundError | FileExistsError | PermissionError)
        return BAD_INPUT if known else FAILED, reason
    return BAD_INPUT if number in _OF_THE_PATH else FAILED, reason
