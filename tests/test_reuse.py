"""What-if runs look up what other runs have computed."""

import pytest
import torch
from safetensors.torch import load_file

import simfl
from simfl.assembly.simulation import Options
from simfl.provenance.results import FolderStore, MemoryStore
from tests.small import SEMI_ASYNCHRONOUS, largest_difference, small

PHONES = "population.groups=[{device: phone_mid_sd660, link: lte_2021, share: 1.0}]"


def stores(tmp_path):
    """One of each kind."""
    return [MemoryStore(), FolderStore(tmp_path / "store")]


@pytest.mark.parametrize("index", [0, 1])
def test_other_hardware_trains_nothing_in_synchronous_runs(tmp_path, index):
    """Participants do not depend on time, so every job and evaluation is found; the result is
    that of a run without a store, byte for byte."""
    store, scenario = stores(tmp_path)[index], small(dtype="float32")
    simfl.run(scenario, tmp_path / "first", Options(store=store))
    what_if = scenario.with_overrides([PHONES])

    warm = simfl.run(what_if, tmp_path / "warm", Options(store=store))
    cold = simfl.run(what_if, tmp_path / "cold")

    counts = warm.manifest["counts"]
    assert counts["jobs_trained"] == 0 and counts["facts_reused"] > 0
    assert (warm.path / "events.parquet").read_bytes() == (
        cold.path / "events.parquet"
    ).read_bytes()
    models = [load_file(run.path / "model.safetensors") for run in (warm, cold)]
    assert largest_difference(*models) == 0.0


@pytest.mark.parametrize("index", [0, 1])
def test_asynchronous_runs_train_from_where_arrivals_differ(tmp_path, index):
    """Slower clients change the order of arrivals; what came before is reused, and the result is
    that of a cold run."""
    store = stores(tmp_path)[index]
    scenario = small(
        dtype="float32", population={"edges": 4}, protocol=SEMI_ASYNCHRONOUS, stop={"versions": 8}
    )
    simfl.run(scenario, tmp_path / "first", Options(store=store))
    what_if = scenario.with_overrides([PHONES, "decisions.scheduling=greedy"])

    warm = simfl.run(what_if, tmp_path / "warm", Options(store=store))
    cold = simfl.run(what_if, tmp_path / "cold")

    counts = warm.manifest["counts"]
    assert counts["jobs_reused"] + counts["facts_reused"] > 0
    assert 0 < counts["jobs_trained"] < cold.manifest["counts"]["jobs_trained"]
    assert (warm.path / "events.parquet").read_bytes() == (
        cold.path / "events.parquet"
    ).read_bytes()


def test_another_seed_finds_nothing(tmp_path):
    """Keys cover the seed: nothing of another seed's run is used."""
    store = MemoryStore()
    simfl.run(small(dtype="float32"), tmp_path / "first", Options(store=store))

    other = simfl.run(small(dtype="float32", seed=4), tmp_path / "other", Options(store=store))

    counts = other.manifest["counts"]
    assert counts["jobs_reused"] == counts["facts_reused"] == 0
    assert counts["jobs_trained"] == counts["jobs_asked"]


def test_a_full_memory_store_forgets_the_least_recently_used():
    """Tensors count against the limit; what was used last stays."""
    store = MemoryStore(limit_bytes=300)
    for name in ("a", "b", "c"):
        store.put(name, {"w": torch.zeros(25)})
    store.get("a")

    store.put("d", {"w": torch.zeros(25)})

    assert "b" not in store
    assert all(name in store for name in ("a", "c", "d"))


def test_a_full_folder_store_makes_room(tmp_path):
    """The least recently used files are deleted; a store opened later sees the rest, and the
    facts.
    """
    store = FolderStore(tmp_path, limit_bytes=20_000)
    for number in range(20):
        store.put(f"key{number}", {"w": torch.full((500,), float(number))})
    store.put_fact("fact", [0.1, 2])

    again = FolderStore(tmp_path, limit_bytes=20_000)

    assert "key0" not in again and "key19" in again
    assert again.get("key19")["w"][0] == 19.0
    assert again.get_fact("fact") == [0.1, 2]
    assert sum(path.stat().st_size for path in tmp_path.glob("*.pt")) <= 20_000


def test_a_damaged_file_is_as_good_as_none(tmp_path):
    """A value that cannot be read is computed again, not an error."""
    store = FolderStore(tmp_path)
    store.put("key", {"w": torch.zeros(3)})
    (tmp_path / "key.pt").write_bytes(b"broken")

    assert store.get("key") is None
    assert "key" not in store


def test_a_store_without_room_keeps_facts_only(tmp_path):
    """Limit 0: values are computed anew, facts are looked up by the next run."""
    store = FolderStore(tmp_path, limit_bytes=0)

    store.put("value", {"w": torch.ones(3)})
    store.put_fact("fact", 0.5)

    assert "value" not in store
    assert list(tmp_path.glob("*.pt")) == []
    assert FolderStore(tmp_path, limit_bytes=0).get_fact("fact") == 0.5
