"""Safe reading of arrays in a NumPy archive (.npz), after checking their headers."""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

MOST_DEFLATED = 1032
"""The most bytes that one byte of a deflated stream can expand to (zlib's technical notes)."""

# What zipfile and numpy raise for damaged, encrypted or foreign content.
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    EOFError,
    OSError,
    RuntimeError,
    OverflowError,
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def read_arrays(
    file: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The named arrays; other keys are not read.

    Raises ValueError, naming the file and the key, for a missing or unreadable array; if a header
    claims more than the file holds, before anything is allocated.
    """
    if not zipfile.is_zipfile(file):
        raise ValueError(f"{file} is not a .npz archive")
    with file.open("rb") as content:
        try:
            archive = np.load(content, allow_pickle=False)
        except _DAMAGE as error:
            raise ValueError(f"{file} cannot be read: {_reason(error)}") from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"{file} is not a .npz archive")
        absent = [key for key in required if key not in archive]
        if absent:
            raise ValueError(
                f"{file} has no {', '.join(absent)}; found {', '.join(archive.files) or 'nothing'}"
            )
        wanted = [key for key in (*required, *optional) if key in archive]
        return {key: _array(file, archive, key) for key in wanted}


def _array(file: Path, archive: np.lib.npyio.NpzFile, key: str) -> np.ndarray:
    try:
        assert archive.zip is not None  # open until the end of the block
        member = key if key in archive.zip.namelist() else f"{key}.npy"
        _require_true_header(archive.zip, member, file.stat().st_size)
        values: np.ndarray = archive[key]
    except _DAMAGE as error:
        raise ValueError(f"{file}: {key} cannot be read: {_reason(error)}") from error
    return values


def _require_true_header(archive: zipfile.ZipFile, member: str, file_bytes: int) -> None:
    """Raises ValueError if the file is too small for the array."""
    info = archive.getinfo(member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("found a compression that numpy does not use")
    most = info.compress_size
    if info.compress_type == zipfile.ZIP_DEFLATED:
        most *= MOST_DEFLATED
    if info.compress_size > file_bytes or info.file_size > most:
        raise ValueError(f"the archive claims {info.file_size:,} bytes, more than it can hold")
    with archive.open(info) as content:
        version = np.lib.format.read_magic(content)
        # Version 3 is for the names of structured types, which no data set has.
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"found the array format {version}, accepted: {list(readers)}")
        shape, _, dtype = readers[version](content)
        claimed, held = math.prod(shape) * dtype.itemsize, info.file_size - content.tell()
    # Arrays of objects are pickles, which numpy itself refuses.
    if not dtype.hasobject and (claimed != held or min(shape, default=0) < 0):
        raise ValueError(
            f"its header claims {claimed:,} bytes (shape {shape}), the archive holds {held:,}"
        )


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
