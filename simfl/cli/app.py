"""The command line: parsing and printing only; everything heavy is imported when needed."""

from __future__ import annotations

import atexit
import gc
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import CommandInfo

from simfl.cli.calibrating import calibrate, measure
from simfl.cli.common import (
    DataRoot,
    Engine,
    Traceback,
    check_engine,
    complete_scenario,
    exit_codes,
    say,
)
from simfl.cli.flower_command import flower
from simfl.cli.new_command import new
from simfl.cli.show_commands import compare, export, plot, report, trace
from simfl.cli.studies import study
from simfl.common.ray_cluster import GIVE_UP_S
from simfl.scenario.shipped import scenario_path

if TYPE_CHECKING:
    from simfl.protocols.publication import Progress
    from simfl.runs.runfolder import LoadedRun

app = typer.Typer(
    name="simfl",
    help="Simulate federated learning on heterogeneous edge systems.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _complete_kind(incomplete: str) -> list[str]:
    from simfl.cli.listing import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


ScenarioName = Annotated[
    str,
    typer.Argument(
        help="A YAML file, or a shipped scenario's name.", autocompletion=complete_scenario
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. algorithm.mu=0.1."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="A seed instead of the scenario's.")]


@app.command()
def run(
    scenario: ScenarioName,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder to create.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the run in --out.")] = False,
    resume: Annotated[bool, typer.Option(help="Continue the run in --out.")] = False,
    any_platform: Annotated[
        bool, typer.Option(help="Also resume a run that began on another numeric platform.")
    ] = False,
    reuse: Annotated[
        Path | None, typer.Option(help="A folder of results shared between runs.")
    ] = None,
    data_root: DataRoot = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    trainer: Annotated[str, typer.Option(help="batched or sequential.")] = "batched",
    workers: Annotated[
        int,
        typer.Option(
            help="Processes or threads that train in parallel; 0: none. With --engine ray:"
            " workers of the cluster; 0: as many as it has room for."
        ),
    ] = 0,
    engine: Engine = "local",
    cpus: Annotated[
        float,
        typer.Option("--cpus-per-worker", min=0.0, help="With --engine ray: CPU cores for each."),
    ] = 1.0,
    gpus: Annotated[
        float, typer.Option("--gpus-per-worker", min=0.0, help="With --engine ray: GPUs for each.")
    ] = 0.0,
    address: Annotated[
        str,
        typer.Option(
            help="With --engine ray: a cluster's address; auto: the cluster of this machine;"
            " local: a new one on this machine."
        ),
    ] = "auto",
    give_up_s: Annotated[
        float,
        typer.Option(
            "--give-up-s",
            help="With --engine ray: seconds without an answer until a worker counts as lost.",
        ),
    ] = GIVE_UP_S,
    tensorboard: Annotated[
        Path | None, typer.Option(help="A folder for live TensorBoard curves.")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="No progress, no summary.")] = False,
    traceback: Traceback = False,
) -> None:
    """Run a scenario and leave a run folder."""
    check_engine(engine)
    with exit_codes(traceback=traceback):
        from simfl import Options, Scenario
        from simfl.console.run import Watcher, print_summary
        from simfl.learning.workers.on_ray import RayWorkers
        from simfl.provenance.results import FolderStore
        from simfl.runs.execution import run as run_scenario

        loaded = Scenario.from_yaml(scenario_path(scenario), overrides or (), seed)
        with Watcher(loaded, quiet=quiet) as watcher, ExitStack() as stack:
            watchers = [watcher.update]
            if tensorboard is not None:
                from simfl.exports.tensorboard import TensorBoardLog

                watchers.append(stack.enter_context(TensorBoardLog(tensorboard)).update)

            def tell(progress: Progress) -> None:
                for watch in watchers:
                    watch(progress)

            options = Options(
                data_root=data_root,
                device=device,
                trainer=trainer,
                workers=workers,
                watch=tell,
                any_platform=any_platform,
                store=FolderStore(reuse) if reuse is not None else None,
                ray=None if engine == "local" else RayWorkers(address, cpus, gpus, give_up_s),
            )
            result = run_scenario(loaded, out, options, overwrite=overwrite, resume=resume)
        if not quiet:
            figure = _figure(result)
            print_summary(result, figure)


@app.command()
def validate(
    scenario: ScenarioName,
    overrides: Overrides = None,
    seed: Seed = None,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Print it with the defaults filled in.")
    ] = False,
    data_root: DataRoot = None,
    traceback: Traceback = False,
) -> None:
    """Check a scenario completely, and print the warnings of its run, without running it."""
    with exit_codes(traceback=traceback):
        from simfl.assembly.assemble import assemble
        from simfl.assembly.simulation import Options
        from simfl.runs.warning_rules import foreseen
        from simfl.scenario.scenario import Scenario

        loaded = Scenario.from_yaml(scenario_path(scenario), overrides or (), seed)
        simulation = assemble(loaded, Options(data_root=data_root, device="cpu"))
        for key, reason in simulation.unread_keys:
            steps = [int(step) if step.isdecimal() else step for step in key.split(".")]
            told = loaded.where(*steps).error("", "", f"nothing reads it: {reason}")
            say(f"warning: {told}", err=resolved)
        for one in foreseen(simulation):
            if one.kind not in ("unread_keys", "unverified_figures"):  # shown anyway; nearly always
                say(f"warning: {one.message}", err=resolved)
        if resolved:
            typer.echo(simulation.resolved.to_yaml(), nl=False)
        else:
            say(f"{scenario}: valid")


@app.command()
def partition(
    scenario: ScenarioName,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also draw a figure: .pdf, .png or .svg.")
    ] = None,
    data_root: DataRoot = None,
) -> None:
    """Show how many examples of which label each client of a scenario has."""
    with exit_codes():
        from simfl.assembly.assemble import partitioned_data
        from simfl.console.partition import print_partition
        from simfl.scenario.scenario import Scenario

        loaded = Scenario.from_yaml(scenario_path(scenario), overrides or (), seed)
        dealt = partitioned_data(loaded.below(data_root))
        title = f"{loaded.name}: {loaded.data.name}, {loaded.data.partition.name}"
        shown = title, dealt.num_examples, dealt.label_counts
        if out is not None:
            from simfl.pictures.partition import save_partition

            drawn = save_partition(*shown, out)
        print_partition(*shown)
        for message, _ in dealt.data.doubts.values():
            say(f"warning: {message}")
        if out is not None:
            say(f"figure: {drawn}")


for _command in (flower, study, report, plot, trace, compare, export, new, calibrate, measure):
    app.command()(_command)


@app.command()
def schema(
    profile: Annotated[
        bool,
        typer.Option("--profile", help="The schema of profiles: devices, servers, links, regions."),
    ] = False,
) -> None:
    """Print the JSON Schema of scenarios, for completion in an editor."""
    from simfl.assembly.registry import profile_schema, scenario_schema

    typer.echo(json.dumps(profile_schema() if profile else scenario_schema(), indent=2))


Profiles = Annotated[
    list[Path] | None,
    typer.Option("--profiles", metavar="FOLDER", help="Include your own device and link files."),
]


@app.command("list")
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="devices, algorithms, selection, ...; default: all kinds.",
            autocompletion=_complete_kind,
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Figures and sources.")] = False,
    profiles: Profiles = None,
) -> None:
    """List the parts and profiles that a scenario can use."""
    from simfl.cli.listing import print_kinds, print_listing

    with exit_codes():
        if kind is None:
            print_kinds()
        else:
            print_listing(kind, verbose=verbose, profiles=profiles or ())


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="A part (oort), a profile (rpi_4b) or file.py:YourClass.")
    ],
    profiles: Profiles = None,
) -> None:
    """Show a part, profile or scenario by name: its keys, defaults and source."""
    from simfl.cli.listing import print_shown

    with exit_codes():
        print_shown(name, profiles or ())


@app.command("convert-trace")
def convert_trace(
    trace_format: Annotated[str, typer.Argument(metavar="FORMAT", help="See `simfl list traces`.")],
    source: Annotated[Path, typer.Argument(help="The file of the other project.")],
    out: Annotated[Path, typer.Argument(help="The Parquet file, or the folder, to write.")],
) -> None:
    """Turn a trace of real devices into a table that a scenario can name."""
    with exit_codes():
        from simfl.system.traces.convert import convert

        for line in convert(trace_format, source, out).splitlines():
            say(line)


def _print_version(asked: bool) -> None:
    if asked:
        from simfl import __version__

        say(f"simfl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version."),
    ] = False,
) -> None:
    """Simulate federated learning on heterogeneous edge systems."""


def main() -> None:
    """The `simfl` command.

    Objects are frozen before exit: Python's final garbage collection would take a fifth as long as
    importing torch. Only the command that is called is created.
    """
    atexit.register(gc.freeze)
    commands = app.registered_commands
    called = [one for one in commands if _name(one) in sys.argv[1:2]]
    app.registered_commands = called or commands
    app()


def _name(command: CommandInfo) -> str:
    return command.name or str(getattr(command.callback, "__name__", ""))


def _figure(result: LoadedRun) -> Path:
    from simfl.pictures.overview import save_overview

    return save_overview(result, result.path / "overview.png")
