"""Whether a study is complete and unchanged.

Planning a study assembles every point's machines, which imports the training libraries; collecting
it reads every run. A finished study needs neither: a file beside its table records what both
depended on, and sizes and dates of files tell whether it is still valid. In any doubt, the study is
planned and collected again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from simfl.common.files import replacing
from simfl.common.own_code import own_files
from simfl.study.studyfile import Study

FINISHED = "finished.json"

_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""An import path of an installed module, such as `package.module:Class`."""

_Stamps = dict[str, tuple[int, int]]
"""Path -> (size in bytes, time of the last change in ns)."""


def is_finished(study: Study, folder: Path, data_root: Path | None = None) -> bool:
    """Whether `folder` holds this study with all its runs and their table, all unchanged.

    `data_root` is the data folder given as an option.
    """
    try:
        known = json.loads((folder / FINISHED).read_bytes())
        code = [Path(one) for one in known["code"]]
        return bool(known == _content(study, folder, data_root, code))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def set_finished(study: Study, folder: Path, data_root: Path | None = None) -> None:
    """Record that every run of the study has ended and is in its table."""
    content = _content(study, folder, data_root, own_files())
    if content is not None:
        with replacing(folder / FINISHED) as partial:
            partial.write_text(json.dumps(content))


def _content(
    study: Study, folder: Path, data_root: Path | None, code: Iterable[Path]
) -> dict[str, Any] | None:
    """What a finished study depends on, as JSON; None if that cannot be determined.

    `code` are the files of own code that were imported when its runs were planned.
    """
    base = study.base.where().source
    texts = set(filter(None, [*_texts(study.content), *_texts(base.content)]))
    if any(_MODULE.fullmatch(one) and ".py:" not in one for one in texts):
        return None  # it may be installed, and then its files are not known
    package = Path(__file__).parents[1]
    files = [*package.rglob("*.py"), *package.rglob("*.yaml")]
    files += (package.parent / "devices").glob("*.yaml")
    places = {base.base_dir, study.where().source.base_dir, study.base.below(data_root).data_root}
    # A point may have its own data root; the files read from it are named beside it.
    roots = set(filter(None, [*_roots(study.content), *_roots(base.content)]))
    places |= set(map(Path, roots))
    for text in texts - roots:
        name = text.rpartition(":")[0] if ".py:" in text else text
        for place in filter(None, places):
            files += _files(place.absolute() / name, folder.absolute())
    gathered = [folder / "runs.parquet", *(folder / "runs").glob("*/*")]
    content = {
        "study": study.content,
        "scenario": base.content,
        "made_of": _stamps(files),
        "code": _stamps(code),
        "gathered": _stamps(gathered),
    }
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def _texts(value: Any) -> Iterator[str]:
    """Every text in nested values, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _roots(value: Any) -> Iterator[str]:
    """Every text under a key `root` (a data folder) in nested values, including those in a grid."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            is_root = str(key).rpartition(".")[2] == "root"
            yield from _texts(one) if is_root else _roots(one)
    elif isinstance(value, list):
        for one in value:
            yield from _roots(one)


def _files(path: Path, study: Path) -> list[Path]:
    """The files that a name in a scenario may refer to: one file with modules beside it, or a
    folder.

    A folder of data or profiles is included whole, except for the study's own folder.
    """
    try:
        if path.is_dir():
            found = [one for one in path.rglob("*") if study not in (one, *one.parents)]
            return [one for one in found if one.is_file()]
        if path.is_file():
            return [path, *(path.parent.glob("*.py") if path.suffix == ".py" else ())]
    except OSError:  # a text that is not a file name
        pass
    return []


def _stamps(files: Iterable[Path]) -> _Stamps:
    states = {str(one): one.stat() for one in files}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in states.items()}
