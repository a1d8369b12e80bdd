"""How errors become one line and an exit code."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.cli.common import exit_codes
from tests.small import SMALL


def command(*arguments: object) -> Any:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x"), 1, "x: No space left on device"),
        (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), 1, "[Errno 27] File too large"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "x"), 1, "x: Disk quota exceeded"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, "x: Permission denied"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "x.partial", None, "x"), 2, "x: Is a "),
        (OSError(errno.ENAMETOOLONG, "File name too long", "xx"), 2, "xx: File name too long"),
        (FileExistsError("x: exists already"), 2, "x: exists already"),
        (FileExistsError(errno.EEXIST, "File exists", __file__), 2, f"{__file__}: found a file, "),
        (OSError("an accident"), 1, "an accident"),
        (MemoryError(), 1, "this machine has too little memory for it: fewer clients,"),
        (OSError("two\n  lines"), 1, "two lines"),
    ],
)
def test_what_the_system_refuses(
    error: Exception, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 and its name where another path would do, 1 where the disk is full."""
    with pytest.raises(typer.Exit) as end, exit_codes():
        raise error

    said = capsys.readouterr().err
    assert end.value.exit_code == code
    assert said.startswith(f"simfl: {line}") and said.count("\n") == 1


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small scenario's file, with a name that a terminal would obey."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    name = "\x1b[31m[/]\u202e[bold]"
    file = Path("small.yaml")
    file.write_text(yaml.dump({**SMALL, "name": name, "model": "linear", "stop": {"versions": 1}}))
    return file


def test_a_name_with_control_characters(scenario: Path) -> None:
    """A run, its comparison and its pages show it; no escape reaches the terminal."""
    results = [
        command("run", scenario, "--out", "a[/]\x07"),
        command("compare", "a[/]\x07", "a[/]\x07"),
        command("report", "a[/]\x07"),
        command("trace", "a[/]\x07"),
    ]

    assert [one.exit_code for one in results] == [0, 0, 0, 0], [one.output for one in results]
    assert r"\x1b[31m[/]\u202e[bold] (seed 3)" in results[0].stdout
    assert r"a[/]\x07" in results[1].stdout
    assert results[3].stdout == "trace: a[/]\\x07/trace.json\n"
    assert not any(sign in one.output for one in results for sign in "\x1b\x07\u202e")


def test_an_error_about_a_name_with_control_characters(scenario: Path) -> None:
    """What a file says is shown in the error."""
    scenario.write_text('"\\e]0;owned\\a": 1\n')

    result = command("validate", scenario)

    assert result.exit_code == 2
    assert r"\x1b]0;owned\x07" in result.stderr and "\x1b" not in result.stderr


@pytest.mark.grid(8)
@pytest.mark.parametrize("out", ["/proc/nothing", "x" * 300, "small.yaml/x", "no/where.html"])
@pytest.mark.parametrize("one", ["run", "report", "trace", "new", "study", "tensorboard", "reuse"])
def test_paths_that_cannot_be_made(scenario: Path, one: str, out: str) -> None:
    """Exit code 2, and the line begins with the path, or what of it is in the way."""
    Path("study.yaml").write_text("scenario: small.yaml\n")
    if one in ("report", "trace"):
        assert command("run", scenario, "--out", "done", "--quiet").exit_code == 0
    arguments = {
        "run": ["run", scenario, "--out", out],
        "report": ["report", "done", "--out", out],
        "trace": ["trace", "done", "--out", out],
        "new": ["new", out],
        "study": ["study", "study.yaml", "--out", out],
        "tensorboard": ["run", scenario, "--tensorboard", out],
        "reuse": ["run", scenario, "--reuse", out],
    }

    result = command(*arguments[one])

    if out == "no/where.html" and one in ("run", "study", "tensorboard", "reuse"):
        assert result.exit_code == 0  # a folder, which is made with those above it
        return
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stderr.startswith(f"simfl: {out[:4]}"), result.stderr
    assert "partial" not in result.stderr
    assert result.stderr.count("\n") == 1
