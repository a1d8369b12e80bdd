"""Commands that show the results of runs and studies: report, plot, trace, compare."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from simfl.cli.common import NAMED, exit_codes, say

OF_RUNS = ("manifest.json", "hardware.json", "finished.json")
"""Files that belong to a run or a study."""


@contextmanager
def _told_by(*folders: Path) -> Iterator[None]:
    """Report folders with contents that no run writes; raises `RunFolderError`.

    Files are checked when they are read. Beyond that, a manifest, a scenario or a log edited by a
    person or another program may contain anything, which only shows where it is used.
    """
    from simfl.runs.runfolder import RunFolderError

    wrong = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
    try:
        yield
    except wrong as error:
        if type(error).__name__ in NAMED:
            raise
        names = ", ".join(map(str, folders))
        what = f"{type(error).__name__}: {error}"
        raise RunFolderError(
            f"{names}: manifest.json, scenario.yaml or a table holds what simfl does not write"
            f" ({what}); run its scenario anew"
        ) from error


def _check_out(path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse to overwrite files that are not a page or a trace, such as a run's own or a scenario.

    Raises `NotDrawable`.
    """
    from simfl.study.curves import NotDrawable

    if path is None or (path.exists() and not path.is_file()):
        return  # such as /dev/null
    if not path.name.lower().endswith(endings) or path.name in OF_RUNS:
        accepted = f"a file that ends in {' or '.join(endings)} and is none of a run's own"
        raise NotDrawable(f"{path}: not overwritten, accepted: {accepted}")


def report(
    folder: Annotated[Path, typer.Argument(help="A run's or a study's folder.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="HTML file; default: report.html in the folder.")
    ] = None,
) -> None:
    """Write an HTML page of a run or a study; it opens without a network."""
    with exit_codes(), _told_by(folder):
        _check_out(out, (".html", ".htm"))
        path, unfinished = out or folder / "report.html", None
        if (folder / "study.yaml").exists():
            from simfl.pictures.report.of_study import report_study
            from simfl.study.loaded import load_study

            report_study(load_study(folder), path)
        else:
            from simfl.pictures.report.of_run import report_run
            from simfl.runs.runfolder import load_run
            from simfl.runs.so_far import so_far

            run = load_run(folder)
            report_run(run, path)
            unfinished = so_far(run)
        say(f"report: {path}")
        if unfinished is not None:
            say(unfinished)


def plot(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN|STUDY", help="The folder of a run or a study.")
    ],
    x: Annotated[
        str,
        typer.Option(
            "--x", help="time_s, client_energy_j, bytes, versions, client_active_j, energy_j, ..."
        ),
    ] = "time_s",
    y: Annotated[str, typer.Option("--y", help="accuracy or loss.")] = "accuracy",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .pdf, .png or .svg; default: curve.pdf in the folder."),
    ] = None,
) -> None:
    """Draw learning curves: a line per setting, with a band over the seeds."""
    from simfl.pictures.curves import caption, save_plot
    from simfl.pictures.curves import plot as draw
    from simfl.runs.runfolder import LoadedRun, load_run
    from simfl.runs.so_far import so_far
    from simfl.study.loaded import load_study

    with exit_codes(), _told_by(folder):
        source = load_study(folder) if (folder / "study.yaml").exists() else load_run(folder)
        unfinished = so_far(source) if isinstance(source, LoadedRun) else None
        say(f"figure: {save_plot(draw(source, x=x, y=y), out or folder / 'curve.pdf')}")
        say(caption(source, x, y))
        if unfinished is not None:
            say(unfinished)


def trace(
    folder: Annotated[Path, typer.Argument(help="A run's folder.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File, .json or .json.gz; default: trace.json.")
    ] = None,
) -> None:
    """Write a run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing."""
    from simfl.pictures.trace import save_trace
    from simfl.runs.runfolder import load_run

    with exit_codes(), _told_by(folder):
        _check_out(out, (".json", ".json.gz"))
        run, levels = load_run(folder), None
        population = run.scenario["population"]
        if any(one.get("batteries") for one in (population, *population.get("groups", ()))):
            from simfl.runs.battery_levels import battery_levels

            levels = battery_levels(run)
        say(f"trace: {save_trace(run, out or folder / 'trace.json', levels)}")


def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="Run folders.")],
    accuracy: Annotated[
        list[float] | None,
        typer.Option(help="Also compare time, joules and bytes to this accuracy."),
    ] = None,
) -> None:
    """Print runs side by side: differences in their scenarios and in their results."""
    from simfl.console.comparison import print_comparison
    from simfl.runs.runfolder import load_run

    for one in accuracy or ():
        if not -math.inf < one <= 1.0:
            reason = f"found {one:g}, accepted: an accuracy of at most 1, as it is a share"
            raise typer.BadParameter(reason, param_hint="--accuracy")
    with exit_codes(), _told_by(*folders):
        print_comparison([load_run(folder) for folder in folders], accuracy or ())


def export(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN|STUDY...", help="Folders of runs or studies.")
    ],
    mlflow: Annotated[
        str,
        typer.Option(
            metavar="URI",
            help="An MLflow tracking server (http://...) or database (sqlite:///mlflow.db; MLflow"
            " then puts files into ./mlruns).",
        ),
    ],
    experiment: Annotated[str, typer.Option(help="MLflow's experiment.")] = "simfl",
) -> None:
    """Send finished runs to MLflow: parameters, curves, final figures, scenario and manifest.

    Of a study, every run, with its factors as tags. Runs that are there already are left alone.
    """
    from simfl.exports.mlflow import export_to_mlflow
    from simfl.runs.runfolder import load_run
    from simfl.study.loaded import runs_of

    with exit_codes():
        for folder in folders:
            with _told_by(folder):
                study = (folder / "study.yaml").exists()
                runs = runs_of(folder) if study else [(load_run(folder), {})]
                for run, setting in runs:
                    found = export_to_mlflow(run, mlflow, experiment, setting)
                    been = " (was there)" if found.was_there else ""
                    say(f"{run.path}: {found.identifier}{been}")
