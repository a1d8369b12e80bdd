"""A pickle is read without running what it says."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.system.traces.safe_pickle import read_plain_pickle
from simfl.system.traces.tables import TraceError

PLAIN = {
    1: {"duration": 5, "active": [1.5, 2], "model": "phone", "raw": b"x", "none": None, "on": True},
    "sets": (frozenset({1}), {2.0, "a"}),
    -(2**70): [],
}


class Runs:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def pickled(folder: Path, content: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> Path:
    """A file with the pickled content."""
    path = folder / "trace.pkl"
    path.write_bytes(pickle.dumps(content, protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_come_back(tmp_path: Path, protocol: int) -> None:
    """Dictionaries, lists, tuples, sets, numbers, text, bytes of every protocol."""
    content = PLAIN if protocol >= 4 else {1: {"active": [1.5, 2], "model": "phone", "on": True}}

    assert read_plain_pickle(pickled(tmp_path, content, protocol)) == content


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_runs(tmp_path: Path, protocol: int) -> None:
    """A pickle that would make a folder makes none; the error names what it wanted."""
    path = pickled(tmp_path, {"client": Runs(tmp_path / "mark")}, protocol)

    with pytest.raises(TraceError, match=r"trace\.pkl: .*holds \w+\.mkdir; only plain containers"):
        read_plain_pickle(path)

    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "content",
    [
        np.float64(1.0),
        np.arange(3),
        OrderedDict(a=1),
        Path("x"),
        int,
        {"deep": [{"x": np.int64(1)}]},
    ],
    ids=str,
)
def test_objects_are_refused(tmp_path: Path, content: Any) -> None:
    """Whatever is made by naming a class is refused, harmless or not."""
    with pytest.raises(TraceError, match="only plain containers"):
        read_plain_pickle(pickled(tmp_path, content))


@pytest.mark.parametrize(
    "code",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93\x8c\x01x\x85R.",
        b"\x80\x02cbuiltins\nset\nq\x00}b.",
        b"Pabc\n.",
        b"\x82\x01.",
        b"cos\x1b[2J\nsystem\n.",
        b"Q.",
    ],
)
def test_hand_written_programs_are_refused(tmp_path: Path, code: bytes) -> None:
    """Old and new ways of naming a function, persistent ids, extension codes."""
    path = tmp_path / "program.pkl"
    path.write_bytes(code)

    with pytest.raises(TraceError, match="not a pickle of plain data") as caught:
        read_plain_pickle(path)

    assert str(caught.value).isprintable()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps limits of memory")
def test_a_pickle_takes_no_more_memory_than_its_data_can_need(tmp_path: Path) -> None:
    """A dozen bytes that want a place for 2^28 memorised objects (4 GB) do not get it."""
    path = tmp_path / "memo.pkl"
    path.write_bytes(b"\x80\x02]r\xff\xff\xff\x0f.")

    with pytest.raises(TraceError, match="not a pickle of plain data: MemoryError"):
        read_plain_pickle(path)


@given(st.binary(max_size=200))
def test_garbage_is_one_kind_of_error(
    tmp_path_factory: pytest.TempPathFactory, code: bytes
) -> None:
    """Any bytes are plain data or a TraceError."""
    path = tmp_path_factory.getbasetemp() / "garbage.pkl"
    path.write_bytes(code)

    with contextlib.suppress(TraceError):
        read_plain_pickle(path)


def test_an_absent_file(tmp_path: Path) -> None:
    """The file that is not there is named."""
    with pytest.raises(TraceError, match=r"none\.pkl: no such file"):
        read_plain_pickle(tmp_path / "none.pkl")
