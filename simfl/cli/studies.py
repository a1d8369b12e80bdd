"""The command that runs studies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfl.cli.common import FAILED, DataRoot, Engine, Traceback, check_engine, exit_codes, say
from simfl.scenario.shipped import scenario_path

if TYPE_CHECKING:
    from simfl.study.loaded import LoadedStudy
    from simfl.study.studyfile import Study


def study(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY",
            help="A study file (YAML); or a scenario or run folder, for error bars of its figures.",
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key in every point."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Seeds instead of the study's: 1,2,5 or 1-10.")
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=2, help="Also run every setting on so many drawn sets of machines."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The study's folder.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Parallel processes; by default 2, or 1 on a single core."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run the I-th of N shares; --out is a shared folder."),
    ] = None,
    collect: Annotated[
        bool, typer.Option("--collect", help="Run nothing, gather the existing runs.")
    ] = False,
    engine: Engine = "local",
    cpus: Annotated[
        float,
        typer.Option("--cpus-per-point", min=0.0, help="With --engine ray: CPU cores for each."),
    ] = 1.0,
    gpus: Annotated[
        float, typer.Option("--gpus-per-point", min=0.0, help="With --engine ray: GPUs for each.")
    ] = 0.0,
    data_root: DataRoot = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    quiet: Annotated[bool, typer.Option(help="No progress, no tables.")] = False,
    traceback: Traceback = False,
) -> None:
    """Run the points of a study that have not been run yet, and answer its questions."""
    check_engine(engine)
    chosen = None if seeds is None else _seeds(seeds)
    loaded: LoadedStudy | None
    missing: int = 0
    unreadable: list[str] = []
    unfinished: list[str] = []
    with exit_codes(traceback=traceback):
        from simfl.study.finished import is_finished
        from simfl.study.studyfile import Study

        path = scenario_path(file)
        asked = Study.from_yaml(path, overrides=overrides or (), seeds=chosen, draws=draws)
        folder = asked.folder(out)
        if collect and shard is not None:
            from simfl.study.session import BadShard

            raise BadShard("--shard: without --collect, which gathers the runs of all shares")
        if collect and not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder, and no runs to gather")
        if shard is not None and asked.search is not None:
            from simfl.study.session import BadShard

            reason = "a search knows its next trials when those before them have ended"
            raise BadShard(
                f"--shard: {reason}; --workers and --engine ray run a batch side by side"
            )
        if shard is None and is_finished(asked, folder, data_root):
            from simfl.study.loaded import load_study

            loaded = load_study(folder)
        else:
            # Planning imports the training libraries.
            from simfl.console.study import failures, follow_study
            from simfl.study.on_ray import Resources
            from simfl.study.session import StudySession

            session = StudySession(asked, out, data_root=data_root, device=device)
            if not collect:
                session.check()
                resources = None if engine == "local" else Resources(cpus, gpus)
                outcomes = follow_study(session, workers, shard, resources, quiet=quiet)
                unfinished = failures(session.points, outcomes) if quiet else []
            loaded = session.collect() if collect or shard is None else None
            missing, unreadable = session.missing(shard), session.unreadable
        if loaded is not None:
            _answer(asked, loaded, quiet=quiet)
        for line in (*unfinished, *unreadable):
            say(f"simfl: {line}", err=True)
        if not quiet:
            say(f"study folder: {folder}{_rest(loaded, missing, len(unreadable))}")
    if missing or unreadable:
        raise typer.Exit(FAILED)


def _answer(study: Study, loaded: LoadedStudy, *, quiet: bool) -> None:
    """Print the answers, and draw them if the table is newer than the picture."""
    picture = loaded.path / "overview.png"
    drawn = picture.exists() and picture.stat().st_mtime_ns >= loaded.written_ns
    if len(loaded.completed) and loaded.metrics and not drawn:
        from simfl.pictures.study_overview import save_study_overview

        save_study_overview(loaded, picture)
    if not quiet:
        from simfl.console.answers import print_answers

        print_answers(study, loaded)


def _rest(loaded: LoadedStudy | None, missing: int, unreadable: int) -> str:
    """How many runs a study lacks; of a whole one, how many of its folder are none of its own."""
    if missing:
        return f"; {missing} {'run is' if missing == 1 else 'runs are'} missing"
    if unreadable:
        return f"; {unreadable} {'run is' if unreadable == 1 else 'runs are'} damaged"
    if loaded is None:
        return ""
    own = {Path(one).name for runs in (loaded.table, loaded.drawn) for one in runs["folder"]}
    others = sum(one.name not in own for one in (loaded.path / "runs").iterdir())
    if not others:
        return ""
    return f"; it has {others} more run{'s' * (others > 1)}, of settings that the study had before"


def _seeds(text: str) -> list[int]:
    """The seeds in a list of numbers and ranges, such as "1,2,5-7"."""
    found: list[int] = []
    for one in text.split(","):
        first, dash, last = one.strip().partition("-")
        numbers = (first, last) if dash else (first, first)
        if not all(number.isdecimal() for number in numbers) or int(numbers[0]) > int(numbers[1]):
            raise typer.BadParameter(
                f"found {text!r}, accepted: as 1,2,5 or 1-10", param_hint="--seeds"
            )
        found += range(int(numbers[0]), int(numbers[1]) + 1)
    return found
