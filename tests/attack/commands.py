"""Commands on hostile input, in this process, and how they may end."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from typer.testing import CliRunner

from simfl.cli.app import app

LIMIT_S = 60


class Hangs(BaseException):
    """A command took longer than `LIMIT_S`; nothing that catches exceptions catches this."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, what it said, and the exception that it let through."""

    exit_code: int
    stderr: str
    escaped: str | None

    @property
    def refused(self) -> bool:
        """Exit code 2, and one line on standard error."""
        lines = self.stderr.splitlines()
        return (
            self.exit_code == 2
            and self.escaped is None
            and len(lines) == 1
            and lines[0].startswith("simfl: ")
        )

    @property
    def accepted(self) -> bool:
        """Exit code 0."""
        return self.exit_code == 0 and self.escaped is None


def ended(command: Sequence[str]) -> Ended:
    """`simfl` with these arguments; a command that hangs ends with the exception `Hangs`."""
    with _within(LIMIT_S):
        result = CliRunner().invoke(app, list(command))
    error = result.exception
    escaped = None if error is None or isinstance(error, SystemExit) else repr(error)
    return Ended(result.exit_code, result.stderr, escaped)


@contextmanager
def _within(limit_s: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise Hangs(f"not over after {limit_s} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(limit_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
