"""The command line: parsing and printing only; everything heavy is imported when needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simfl.runfolder import LoadedRun

BAD_INPUT, DIVERGED, INTERRUPTED, FAILED = 2, 3, 130, 1

app = typer.Typer(
    name="simfl",
    help="Simulate federated learning on heterogeneous edge systems.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. algorithm.mu=0.1."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Another seed than the scenario's.")]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Folder of the data sets (else SIMFL_DATA).")
]


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="A YAML file, or a shipped scenario's name.")],
    overrides: Overrides = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to make.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the run in --out.")] = False,
    resume: Annotated[bool, typer.Option(help="Go on with the run in --out.")] = False,
    any_platform: Annotated[
        bool, typer.Option(help="Resume a run that was begun on another numeric platform.")
    ] = False,
    reuse: Annotated[
        Path | None, typer.Option(help="Folder of results to share between runs.")
    ] = None,
    data_root: DataRoot = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    trainer: Annotated[str, typer.Option(help="batched or sequential.")] = "batched",
    workers: Annotated[
        int, typer.Option(help="Processes that train side by side; 0: in this one.")
    ] = 0,
    quiet: Annotated[bool, typer.Option(help="No progress, no summary.")] = False,
) -> None:
    """Run a scenario and leave a run folder."""
    from simfl.console import Watcher, print_summary

    with _exit_codes():
        from simfl.execution import run as run_scenario
        from simfl.results import FolderStore
        from simfl.scenario import Scenario
        from simfl.simulation import Options

        loaded = Scenario.from_yaml(_scenario_file(scenario), overrides or (), seed)
        with Watcher(loaded, quiet=quiet) as watcher:
            options = Options(
                data_root=data_root,
                device=device,
                trainer=trainer,
                workers=workers,
                watch=watcher.update,
                any_platform=any_platform,
                store=FolderStore(reuse) if reuse is not None else None,
            )
            result = run_scenario(loaded, out, options, overwrite=overwrite, resume=resume)
        if not quiet:
            figure = _figure(result)
            print_summary(result, figure)


@app.command()
def validate(
    scenario: Annotated[str, typer.Argument(help="A YAML file, or a shipped scenario's name.")],
    overrides: Overrides = None,
    seed: Seed = None,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Print it with every default filled in.")
    ] = False,
    data_root: DataRoot = None,
) -> None:
    """Check a scenario completely, without running it."""
    with _exit_codes():
        from simfl.assembly import assemble
        from simfl.scenario import Scenario
        from simfl.simulation import Options

        loaded = Scenario.from_yaml(_scenario_file(scenario), overrides or (), seed)
        simulation = assemble(loaded, Options(data_root=data_root, device="cpu"))
        if resolved:
            typer.echo(simulation.resolved.to_yaml(), nl=False)
        else:
            typer.echo(f"{scenario}: valid")


@app.command()
def study(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="A study's YAML file.")],
    out: Annotated[Path | None, typer.Option("--out", help="The study's folder.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes side by side; by default 2, or 1 on a single core."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run the I-th of N shares; --out is a shared folder."),
    ] = None,
    collect: Annotated[
        bool, typer.Option("--collect", help="Run nothing: gather the runs that are there.")
    ] = False,
    data_root: DataRoot = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    quiet: Annotated[bool, typer.Option(help="No progress, no tables.")] = False,
) -> None:
    """Run every point of a study that has not been run yet, and answer its questions."""
    from simfl.console.study import follow_study

    with _exit_codes():
        from simfl.console.answers import print_answers
        from simfl.listing import shipped_scenarios
        from simfl.pictures.study_overview import save_study_overview
        from simfl.study.session import StudySession
        from simfl.study.studyfile import Study

        session = StudySession(
            Study.from_yaml(file, shipped_scenarios()), out, data_root=data_root, device=device
        )
        if not collect:
            session.check()
            follow_study(session, workers, shard, quiet=quiet)
        if collect or shard is None:
            loaded = session.collect()
            if len(loaded.completed):
                save_study_overview(loaded, session.folder.path / "overview.png")
            if not quiet:
                print_answers(session.study, loaded)
        missing = len(session.todo(shard))
        if not quiet:
            rest = f"; {missing} runs are missing" if missing else ""
            typer.echo(f"study folder: {session.folder.path}{rest}")
    if missing:
        raise typer.Exit(FAILED)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A run's or a study's folder.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="HTML file; default: report.html in the folder.")
    ] = None,
) -> None:
    """Write one HTML page that shows a run or a study; it opens without a network."""
    with _exit_codes():
        path = out or folder / "report.html"
        if (folder / "study.yaml").exists():
            from simfl.pictures.report.of_study import report_study
            from simfl.study.loaded import load_study

            report_study(load_study(folder), path)
        else:
            from simfl.pictures.report.of_run import report_run
            from simfl.runfolder import load_run

            report_run(load_run(folder), path)
        typer.echo(f"report: {path}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenarios, for completion in editors."""
    from simfl.registry import scenario_schema

    typer.echo(json.dumps(scenario_schema(), indent=2))


@app.command("list")
def list_names(
    kind: Annotated[
        str,
        typer.Argument(
            help="devices, servers, links, regions, algorithms, protocols, decisions, datasets,"
            " partitions, models, populations, availability, codecs, measures, scenarios, traces or"
            " events."
        ),
    ],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Figures and sources.")] = False,
    profiles: Annotated[
        list[Path] | None,
        typer.Option("--profiles", metavar="FOLDER", help="Own device and link files, as well."),
    ] = None,
) -> None:
    """List what a scenario can name."""
    from simfl.listing import print_listing

    with _exit_codes():
        print_listing(kind, verbose=verbose, profiles=profiles or ())


@app.command("convert-trace")
def convert_trace(
    trace_format: Annotated[
        str, typer.Argument(metavar="FORMAT", help="`simfl list traces` names them.")
    ],
    source: Annotated[Path, typer.Argument(help="The file of the other project.")],
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
) -> None:
    """Turn a trace of real devices into a table that a scenario can name."""
    with _exit_codes():
        from simfl.system.traces.convert import convert

        typer.echo(convert(trace_format, source, out))


def main() -> None:
    """The `simfl` command."""
    app()


@contextmanager
def _exit_codes() -> Iterator[None]:
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
            "RunFolderError",
            "UnknownListing",
        ),
        BAD_INPUT,
    )
    codes |= {"Diverged": DIVERGED, "Stalled": FAILED, "RunFailed": FAILED}
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


def _scenario_file(name: str) -> Path:
    """The file that the user means: a path, or a shipped scenario by name."""
    from simfl.listing import shipped_scenarios

    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    return shipped_scenarios().get(name, path)


def _figure(result: LoadedRun) -> Path:
    from simfl.pictures.overview import save_overview

    return save_overview(result, result.path / "overview.png")
