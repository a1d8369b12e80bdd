"""`simfl new`: commented files to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from simfl.cli.common import complete_scenario, exit_codes, say
from simfl.common.files import replacing
from simfl.scenario.shipped import scenario_path

TEMPLATES = Path(__file__).parent / "templates"


def new(
    file: Annotated[
        Path | None, typer.Argument(help="The file to create; for --device its folder.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            help="A shipped scenario to copy; default: starter.", autocompletion=complete_scenario
        ),
    ] = None,
    study: Annotated[bool, typer.Option("--study", help="A study, not a scenario.")] = False,
    algorithm: Annotated[
        bool, typer.Option("--algorithm", help="An algorithm of your own, in Python.")
    ] = False,
    selection: Annotated[
        bool, typer.Option("--selection", help="A client selection of your own, in Python.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="A profile of your own device.")
    ] = None,
) -> None:
    """Make a commented scenario, study, algorithm, selection or device to start from."""
    if sum((study, algorithm, selection, device is not None)) > 1:
        raise typer.BadParameter(
            "found several, accepted: one of --study, --algorithm, --selection and --device"
        )
    if like is not None and (study or algorithm or selection or device is not None):
        raise typer.BadParameter(
            "found --like, which copies a scenario, beside another kind of file, accepted: --like"
            " alone"
        )
    with exit_codes():
        if device is not None:
            if re.fullmatch(r"[A-Za-z]\w*", device) is None:
                raise typer.BadParameter(
                    f"found {device!r}, accepted: a letter, then letters, digits and _",
                    param_hint="--device",
                )
            path = (file or Path("devices")) / f"{device}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (TEMPLATES / "device.yaml").read_text(encoding="utf-8")
            _write(path, text.replace("DEVICE", device))
            group = f"groups: [{{device: {device}, link: wifi5_ac}}]"
            say(f"{path}: made; population: {{profiles: [{path.parent}], {group}}}")
        elif study:
            path = file or Path("study.yaml")
            _write(path, (TEMPLATES / "study.yaml").read_text(encoding="utf-8"))
            say(f"{path}: made; simfl study {path}")
        elif algorithm or selection:
            kind = "algorithm" if algorithm else "selection"
            path = file or Path(f"my_{kind}.py")
            name = "".join(word.capitalize() for word in path.stem.split("_"))
            if path.suffix != ".py" or not name.isidentifier():
                raise typer.BadParameter(f"found {path}, accepted: a Python file's name")
            text = (TEMPLATES / f"{kind}.txt").read_text(encoding="utf-8")
            _write(path, text.replace("CLASS", name))
            part = f"algorithm: {{name: {path.name}:{name}}}"
            if selection:
                part = f"decisions: {{selection: {{name: {path.name}:{name}, count: 10}}}}"
            say(f"{path}: made; in a scenario beside it: {part}")
        else:
            path = file or Path("scenario.yaml")
            _write(path, scenario_path(like or "starter").read_text(encoding="utf-8"))
            say(f"{path}: made; simfl run {path}")


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise FileExistsError(f"{path}: exists already; choose another name")
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
