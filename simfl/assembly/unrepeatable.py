"""Calls in a user's own files whose results differ between runs, whatever the seed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OF_NUMPY = (
    *("default_rng", "RandomState", "SeedSequence"),
    *("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"),
)

NEED_A_SEED = {"random.Random", *(f"numpy.random.{name}" for name in _OF_NUMPY)}
"""Generators that take their seed from the operating system if they are given none."""

NEVER_THE_SAME = {
    *("random.SystemRandom", "os.urandom", "uuid.uuid1", "uuid.uuid4"),
    *("secrets.choice", "secrets.randbelow", "secrets.randbits"),
    *("secrets.token_bytes", "secrets.token_hex"),
    *("time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns"),
    *("datetime.datetime.now", "datetime.datetime.utcnow"),
}
"""The operating system's random numbers, and clocks of this machine.

`time.perf_counter` and `time.process_time` are not among them: they measure code.
"""


def unrepeatable_calls(text: bytes) -> Iterator[tuple[int, str]]:
    """The line and full name of each such call in a module's source text."""
    tree = ast.parse(text)
    origin = _origins(tree)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = _full_name(call.func, origin)
        if name in NEVER_THE_SAME or (name in NEED_A_SEED and _unseeded(call)):
            yield call.lineno, name


def _origins(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, such as `numpy.random.default_rng`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                top = one.name.partition(".")[0]
                found[one.asname or top] = one.name if one.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update(
                {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            )
    return found


def _full_name(called: ast.expr, origin: dict[str, str]) -> str:
    """A dotted name with its import in place of its first part; empty if it is no such name."""
    if isinstance(called, ast.Attribute):
        owner = _full_name(called.value, origin)
        return owner and f"{owner}.{called.attr}"
    return origin.get(called.id, "") if isinstance(called, ast.Name) else ""


def _unseeded(call: ast.Call) -> bool:
    """Without an argument, or with None as its only one."""
    given = [*call.args, *(one.value for one in call.keywords)]
    return all(isinstance(one, ast.Constant) and one.value is None for one in given)
