"""Reading pickles of plain data without running what they say.

A pickle is a program: by naming a function and its arguments it runs anything when it is loaded.
This reader admits no name at all, so that nothing but dictionaries, lists, tuples, sets, numbers,
strings, bytes, booleans and None can come out. (Protocols below 4 make sets by name: refused.)
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from simfl.system.traces.tables import TraceError


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every name."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """An error that names what the pickle asked for."""
        raise pickle.UnpicklingError(
            f"holds {module_name}.{global_name}; only plain containers, numbers and text are read"
        )


def read_plain_pickle(path: Path) -> Any:
    """What the pickle in `path` holds; TraceError if it is not plain data."""
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        MemoryError,
        UnicodeDecodeError,
        OverflowError,
    ) as error:
        reason = str(error) or type(error).__name__
        raise TraceError(f"{path}: not a pickle of plain data: {reason}") from error
