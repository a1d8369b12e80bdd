"""The files of a run folder: ownership, locking, and which files are simfl's.

Nothing else is ever removed or written to, and symbolic links are never followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simfl.common.files import RunFolderError
from simfl.eventlog.parquet_parts import PART_NAME, PARTS
from simfl.provenance.replay import BEFORE
from simfl.runs.runfolder import MANIFEST, read_manifest

JOURNAL, SCENARIO, SNAPSHOT = "journal.jsonl", "scenario.yaml", "snapshot.pt"
STANDALONE = "standalone"
"""The folder, in a run's own, of the run that says what its clients contribute."""

LOCK = "run.lock"
RESERVE_BYTES = 1 << 16
"""Size of the lock's file: room that a full disk still has for saying why a run ended."""

_NAMES = re.compile(
    PART_NAME.pattern
    + r"|(manifest|hardware|scenario|snapshot|model|events|rounds|clients|evaluations)\.partial"
    r"|(manifest|hardware)\.json|scenario\.yaml|journal\.jsonl|snapshot\.pt|model\.safetensors|run\.lock"
    r"|(events|rounds|clients|evaluations)\.parquet"
    r"|(overview|report|trace)(\.partial)?\.(png|html|json)|trace\.json(\.partial)?\.gz"
)


class FolderInUse(ValueError):
    """The output folder is already in use, or cannot be created."""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Creates the folder, and locks it for other runs until the block ends.

    The operating system releases the lock when its holder ends, in any way. Raises `FolderInUse` if
    another run is in progress there, or if the folder cannot be created.
    """
    from filelock import FileLock, Timeout  # takes a tenth of a second to import

    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = FileLock(folder / LOCK).acquire(blocking=False)
    except Timeout:
        raise FolderInUse(
            f"{folder}: a run is going on in this folder; wait for its end, or choose another --out"
        ) from None
    except (OSError, ValueError) as error:
        raise _cannot_be_made(folder, error) from error
    with held:
        with suppress(OSError), (folder / LOCK).open("wb") as file:
            file.write(b"a run is going on here\n".ljust(RESERVE_BYTES))
        try:
            yield
        finally:
            with suppress(OSError):
                (folder / LOCK).unlink()


def free_reserve(folder: Path) -> None:
    """Frees the space that the lock file reserves for the manifest."""
    with suppress(OSError), (folder / LOCK).open("r+b") as file:
        file.truncate()


def check_folder(folder: Path, *, overwrite: bool, resume: bool) -> None:
    """Raises `FolderInUse` unless a run may be started, repeated or resumed in `folder`.

    It may if the folder is empty, or holds a run that failed before its first version, because
    nothing is lost. With `overwrite` or `resume` also if it holds a run of simfl.
    """
    try:
        str(folder.absolute()).encode()
        if folder.is_symlink():
            raise FolderInUse(f"{folder}: a symbolic link; name the folder that it leads to")
        if folder.exists() and not folder.is_dir():
            raise FolderInUse(f"{folder}: a file; choose another --out")
        found = {path.name for path in folder.iterdir()} if folder.exists() else set()
        # A run that was interrupted in its first milliseconds has not written a manifest yet.
        if not found - {LOCK, "manifest.partial"}:
            return
        if MANIFEST not in found:
            raise FolderInUse(f"{folder}: not empty and no run folder; choose another --out")
        try:
            manifest = read_manifest(folder)
        except RunFolderError as error:
            raise FolderInUse(f"{error}; choose another --out") from error
        for path in written_paths(folder):
            if path.is_symlink():
                raise FolderInUse(f"{path}: a symbolic link where simfl writes; remove it")
            if path.is_dir() == bool(_NAMES.fullmatch(path.name)):
                kind, wanted = ("folder", "file") if path.is_dir() else ("file", "folder")
                raise FolderInUse(f"{path}: a {kind} where simfl writes a {wanted}; remove it")
    except FolderInUse:
        raise
    except UnicodeEncodeError:  # Parquet files cannot be written there
        raise FolderInUse(f"{folder}: a path that is not UTF-8; choose another --out") from None
    except (OSError, ValueError) as error:
        raise _cannot_be_made(folder, error) from error
    if overwrite or resume:
        return
    if manifest["status"] != "failed":
        raise FolderInUse(f"{folder}: holds a run; choose another --out, --overwrite or --resume")
    versions = (manifest.get("counts") or {}).get("versions")
    if versions != 0:
        after = "" if versions is None else f" after {versions} versions"
        raise FolderInUse(
            f"{folder}: holds a run that failed{after}; --overwrite runs it"
            " anew, --resume goes on with the same one, or choose another --out"
        )


def clear(folder: Path) -> None:
    """Removes simfl's own files from a run folder; everything else stays."""
    for path in written_paths(folder):
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):  # it contains a file of the user's
                path.rmdir()
        elif path != folder / LOCK:
            path.unlink()


def written_paths(folder: Path) -> list[Path]:
    """Everything in a run folder that simfl writes; a folder's contents come before the folder."""
    found = []
    for path in sorted(folder.iterdir()):
        is_folder = path.is_dir() and not path.is_symlink()
        if path.name in (PARTS, BEFORE) and is_folder:
            found += [one for one in sorted(path.iterdir()) if PART_NAME.fullmatch(one.name)]
        elif path.name == STANDALONE and is_folder:
            found += written_paths(path)
        if path.name in (PARTS, BEFORE, STANDALONE) or _NAMES.fullmatch(path.name):
            found.append(path)
    return found


def _cannot_be_made(folder: Path, error: Exception) -> FolderInUse:
    cause = getattr(error, "strerror", None) or error
    return FolderInUse(f"{folder}: cannot be made or read ({cause}); choose another --out")
