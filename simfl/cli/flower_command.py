"""`simfl flower`: a Flower app's folder, run on simulated machines."""

from __future__ import annotations

import logging
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from simfl.cli.common import Traceback, exit_codes


def flower(
    app: Annotated[Path, typer.Argument(help="The app's folder, with its pyproject.toml.")],
    population: Annotated[
        Path | None,
        typer.Option(help="YAML file of the machines: a scenario's population section."),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(help="Instead, YAML file of a scenario without data, model and algorithm."),
    ] = None,
    run_config: Annotated[
        list[str] | None,
        typer.Option(
            "--run-config",
            metavar="KEY=VALUE",
            help="A value of the app's run config, or one TOML file.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the scenario."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder to create.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the run in --out.")] = False,
    resume: Annotated[bool, typer.Option(help="Continue the run in --out.")] = False,
    reuse: Annotated[
        Path | None,
        typer.Option(help="A folder of shared answers; default: answers/ beside --out."),
    ] = None,
    quiet: Annotated[bool, typer.Option(help="No progress, no summary.")] = False,
    traceback: Traceback = False,
) -> None:
    """Run a Flower app, unchanged, on simulated machines and leave a run folder."""
    with exit_codes(traceback=traceback):
        from simfl import Options
        from simfl import flower as bridge
        from simfl.console.run import Watcher, print_summary
        from simfl.pictures.overview import save_overview
        from simfl.provenance.results import FolderStore
        from simfl.runs.execution import default_folder
        from simfl.runs.execution import run as run_scenario

        if (population is None) == (scenario is None):
            found = "neither" if population is None else "both"
            raise typer.BadParameter(
                f"found {found}, accepted: one of --population and --scenario; a population is a"
                " file such as"
                " {name: catalogue, clients: 20, groups: [{device: rpi_4b, link: wifi5_ac}]}"
            )
        loaded = bridge.scenario(
            app,
            population=population,
            base=scenario,
            run_config=_values(run_config or []),
            overrides=overrides or (),
            seed=seed,
        )
        if quiet:
            # A filter instead of a level: flwr sets its own level when it is imported later.
            logging.getLogger("flwr").addFilter(_at_least_a_warning)
        folder = out or default_folder(loaded)
        with Watcher(loaded, quiet=quiet) as watcher:
            store = FolderStore(reuse or folder.absolute().parent / "answers")
            options = Options(watch=watcher.update, device="cpu", store=store)
            result = run_scenario(loaded, folder, options, overwrite=overwrite, resume=resume)
        if not quiet:
            print_summary(result, save_overview(result, result.path / "overview.png"))


def _at_least_a_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def _values(given: list[str]) -> dict[str, Any]:
    """As `flwr run` reads them: KEY=VALUE pairs, perhaps several in one text, or one TOML file."""
    if len(given) == 1 and given[0].endswith(".toml"):
        try:
            return tomllib.loads(Path(given[0]).expanduser().read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise typer.BadParameter(f"{given[0]}: {error}", param_hint="--run-config") from None
    values: dict[str, Any] = {}
    for pair in [one for text in given for one in _pairs(text)]:
        key, equals, value = pair.partition("=")
        try:
            if not (key and equals):
                raise ValueError(pair)
            values[key] = tomllib.loads(f"value = {value}")["value"]
        except ValueError:
            message = f"found {pair!r}, accepted: KEY=VALUE with a TOML value, as lr=0.1 or tag='a'"
            raise typer.BadParameter(message, param_hint="--run-config") from None
    return values


def _pairs(text: str) -> list[str]:
    """Split at blanks before another KEY=, but not within quotes."""
    return re.findall(r"\S+?=(?:'[^']*'|\"[^\"]*\"|\S+)|\S+", text)
