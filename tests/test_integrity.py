"""Files that differ from what was written are noticed: refused, or computed again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import simfl
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.common.files import RunFolderError, open_line, sealed_line
from simfl.provenance.results import FolderStore
from simfl.runs.runfolder import LoadedRun
from tests.small import SEMI_ASYNCHRONOUS, small
from tests.test_resume import assert_same, cut_off

SCENARIO = small(
    dtype="float32", model="linear", protocol=SEMI_ASYNCHRONOUS, stop={"versions": 8}
).with_overrides(["log.rows_per_segment=60"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """The undisturbed run."""
    return simfl.run(SCENARIO, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def cut_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run, cut off after five of eight versions."""
    folder = tmp_path_factory.mktemp("cut") / "run"
    cut_off(SCENARIO, folder, 5)
    return folder


@pytest.fixture
def cut(cut_once: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return shutil.copytree(cut_once, tmp_path / "cut")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds everything that the run computed."""
    folder = tmp_path_factory.mktemp("store")
    simfl.run(SCENARIO, folder / "run", Options(store=FolderStore(folder / "results")))
    return folder / "results"


def flip(path: Path, share: float) -> None:
    """Change one bit of a file, at a share of its length."""
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_a_changed_bit_of_a_snapshot_costs_training_not_truth(
    whole: LoadedRun, cut: Path, share: float
) -> None:
    """It is not used; the result is that of the undisturbed run, and the manifest says so."""
    flip(cut / "snapshot.pt", share)

    resumed = simfl.run(SCENARIO, cut, resume=True)

    assert_same(whole, resumed)
    assert "its bytes are not those that were written" in resumed.warnings[0].message


def test_a_snapshot_of_another_type_is_not_used(whole: LoadedRun, cut: Path) -> None:
    """A list, as torch writes it."""
    torch.save([1, 2], cut / "snapshot.pt")

    resumed = simfl.run(SCENARIO, cut, resume=True)

    assert_same(whole, resumed)
    assert "its bytes are not those that were written" in resumed.warnings[0].message


@pytest.mark.parametrize("name", ["clients.parquet", "model.safetensors", "scenario.yaml"])
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_completed_run_is_whole_or_refused(
    whole: LoadedRun, tmp_path: Path, name: str, damage: str
) -> None:
    """Resuming it reports the damage instead of continuing with incomplete files."""
    shutil.copytree(whole.path, tmp_path / "run")
    path = tmp_path / "run" / name
    flip(path, 0.5) if damage == "changed" else path.unlink()

    with pytest.raises(RunFolderError, match=f"{name}: (damaged, or of another|not there)"):
        simfl.run(SCENARIO, tmp_path / "run", resume=True)


def changed_value(line: bytes) -> bytes:
    """The journal's line with another number in its fact."""
    key, fact, *seal = json.loads(line)
    return json.dumps([key, {**fact, "loss": 0.5} if isinstance(fact, dict) else 7, *seal]).encode()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "another value": changed_value,
    "another shape": lambda line: b'{"key": 1}',
    "no JSON": lambda line: line[: len(line) // 2],
    "another encoding": lambda line: b"\xff\xfe" + line,
    "deep": lambda line: b"[" * 100_000,
    "a key that is no text": lambda line: b"[[], 1, 2]",
}


@pytest.mark.parametrize("damage", list(DAMAGES))
@pytest.mark.parametrize("place", [0, -1])
def test_a_damaged_line_of_the_journal_is_found_out_again(
    whole: LoadedRun, cut: Path, damage: str, place: int
) -> None:
    """Within what the log repeats or beyond it, the first line or the last."""
    journal = cut / "journal.jsonl"
    lines = journal.read_bytes().splitlines()
    lines[place] = DAMAGES[damage](lines[place])
    journal.write_bytes(b"\n".join(lines) + b"\n")

    resumed = simfl.run(SCENARIO, cut, resume=True)

    assert_same(whole, resumed)
    assert "journal.jsonl: 1 damaged lines" in resumed.warnings[0].message


def flip_all(folder: Path, share: float) -> None:
    """Change a bit of every entry."""
    for path in folder.glob("*.pt"):
        flip(path, share)


def change_types(folder: Path) -> None:
    """Every entry is a list, as torch writes it."""
    for path in folder.glob("*.pt"):
        torch.save([1, 2], path)


def rotate(folder: Path) -> None:
    """Every entry under the name of the next one."""
    contents = [path.read_bytes() for path in sorted(folder.glob("*.pt"))]
    for path, content in zip(sorted(folder.glob("*.pt")), contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)


def change_facts(folder: Path) -> None:
    """Every evaluation with another loss."""
    (facts,) = folder.glob("facts-*.jsonl")
    lines = facts.read_bytes().splitlines()
    changed = [changed_value(line) if b'"loss"' in line else line for line in lines]
    facts.write_bytes(b"\n".join(changed) + b"\n")


def add_line(folder: Path, line: bytes) -> None:
    """A line of facts that no run writes."""
    (facts,) = folder.glob("facts-*.jsonl")
    facts.write_bytes(facts.read_bytes() + line + b"\n")


STORE_DAMAGES: dict[str, Callable[[Path], None]] = {
    **{f"bits at {share}": partial(flip_all, share=share) for share in (0.0, 0.4, 0.8, 1.0)},
    "types": change_types,
    "names": rotate,
    "facts": change_facts,
    "a line of no text": partial(add_line, line=b"\xff"),
    "a line of another shape": partial(add_line, line=b'{"key": 1}'),
    "a line without end": partial(add_line, line=b"[" * 100_000),
}


@pytest.mark.parametrize("damage", list(STORE_DAMAGES))
def test_a_damaged_store_gives_what_no_store_gives(
    whole: LoadedRun, kept: Path, tmp_path: Path, damage: str
) -> None:
    """Entries and facts that are not what was kept are computed again, and the manifest says so."""
    folder = shutil.copytree(kept, tmp_path / "results")
    STORE_DAMAGES[damage](folder)

    again = simfl.run(SCENARIO, tmp_path / "again", Options(store=FolderStore(folder)))

    assert_same(whole, again)
    (found,) = (one for one in again.warnings if one.kind == "damaged_store")
    assert "damaged entries, not used" in found.message


def test_a_damaged_entry_is_replaced(kept: Path, tmp_path: Path) -> None:
    """The next run finds everything again."""
    folder = shutil.copytree(kept, tmp_path / "results")
    flip(min(folder.glob("*.pt")), 0.5)
    simfl.run(SCENARIO, tmp_path / "again", Options(store=FolderStore(folder)))

    third = simfl.run(SCENARIO, tmp_path / "third", Options(store=FolderStore(folder)))

    assert third.manifest["counts"]["jobs_trained"] == 0
    assert [one.kind for one in third.warnings] == ["unverified_figures"]


def test_a_damaged_line_of_facts_is_told_of_once(kept: Path, tmp_path: Path) -> None:
    """It leaves its file; what another run is just writing, and files of one's own, stay."""
    folder = shutil.copytree(kept, tmp_path / "results")
    (facts,) = folder.glob("facts-*.jsonl")
    lines = facts.read_bytes()
    facts.write_bytes(b"no fact\n" + lines + b'["half')
    (folder / "facts.jsonl").write_bytes(b"of the user's\n")

    assert FolderStore(folder).damaged == 2
    assert facts.read_bytes() == lines + b'["half'
    assert (folder / "facts.jsonl").read_bytes() == b"of the user's\n"
    (folder / "facts.jsonl").unlink()
    assert FolderStore(folder).damaged == 0


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 4000], ids=["empty", "cut", "other"])
def test_a_damaged_segment_is_refused_in_one_line(
    cut: Path, tmp_path: Path, content: bytes
) -> None:
    """With its name, before anything is moved; nothing of the run is lost."""
    (tmp_path / "run.yaml").write_text(SCENARIO.to_yaml())
    segment = cut / "events" / "part-00001.parquet"
    segment.write_bytes(content)
    before = (cut / "manifest.json").read_bytes()

    done = resume(tmp_path)

    assert done.exit_code == 2
    assert "part-00001.parquet: not readable as Parquet" in done.output
    assert done.output.count("\n") == 1
    assert (cut / "manifest.json").read_bytes() == before
    assert segment.read_bytes() == content


def test_a_replay_that_differs_is_one_line_and_leaves_the_run_as_it_was(
    cut: Path, tmp_path: Path
) -> None:
    """Its log, its status and its snapshot; asked again, the same comes of it."""
    (tmp_path / "run.yaml").write_text(SCENARIO.to_yaml())
    other = SCENARIO.with_overrides(["population.groups.0.device=rpi_5"])
    cut_off(other, tmp_path / "other", 5)
    segment = cut / "events" / "part-00001.parquet"
    segment.write_bytes((tmp_path / "other" / "events" / "part-00001.parquet").read_bytes())
    events = simfl.load_run(cut).events

    for _ in range(2):
        done = resume(tmp_path)

        assert done.exit_code == 2 and done.output.count("\n") == 1
        assert "of the event log are not what was written before" in done.output
        run = simfl.load_run(cut)
        assert run.manifest["status"] == "interrupted"
        assert run.events.equals(events)


def resume(folder: Path) -> Any:
    """`simfl run run.yaml --out cut --resume`."""
    command = ["run", str(folder / "run.yaml"), "--out", str(folder / "cut"), "--resume"]
    return CliRunner().invoke(app, [*command, "--quiet"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": None}, "counts is missing or of another type"),
        ({"counts": {"versions": 1.5}}, r"counts\.versions is missing or no whole number"),
        ({"horizon_s": "long"}, "horizon_s is missing or of another type"),
        ({"energy_j": True}, "energy_j is missing or of another type"),
        ({"status": "great"}, "not a manifest of simfl's"),
        ({"digest": 7}, "not a manifest of simfl's"),
    ],
    ids=str,
)
def test_a_manifest_without_its_keys_is_told(
    whole: LoadedRun, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """When the run is loaded, with the key."""
    (tmp_path / "manifest.json").write_text(json.dumps({**whole.manifest, **change}))

    with pytest.raises(RunFolderError, match=message):
        simfl.load_run(tmp_path)


def test_a_manifest_nested_without_end_is_told(tmp_path: Path) -> None:
    """As one that is no JSON at all."""
    (tmp_path / "manifest.json").write_text('{"status": ' + "[" * 100_000)

    with pytest.raises(RunFolderError, match=r"manifest\.json: not readable as JSON"):
        simfl.load_run(tmp_path)


@pytest.mark.parametrize("name", ["events", "rounds", "evaluations"])
def test_a_table_without_its_columns_is_told(whole: LoadedRun, tmp_path: Path, name: str) -> None:
    """Also for runs whose manifests have no digests."""
    manifest = {key: value for key, value in whole.manifest.items() if key != "files"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    table = pq.read_table(whole.path / f"{name}.parquet").drop_columns("version")
    pq.write_table(table, tmp_path / f"{name}.parquet")

    with pytest.raises(RunFolderError, match="it has no column version"):
        getattr(simfl.load_run(tmp_path), name)


@pytest.mark.parametrize("fact", [0.1 + 0.2, float("inf"), None, {"a": [1, -0.0]}, "ü"])
def test_a_sealed_line_opens_to_its_fact(fact: Any) -> None:
    """Bit for bit; and not when anything of it was changed."""
    line = sealed_line("key", fact).encode()

    assert repr(open_line(line)) == repr(("key", fact))
    assert open_line(line.replace(b"key", b"kez")) is None
