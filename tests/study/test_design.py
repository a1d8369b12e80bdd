"""Which points a study has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from simfl.assembly.assemble import outlined
from simfl.assembly.unread import held
from simfl.console.study import labels
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.design import chosen, corners, draw, settings
from simfl.study.plan import Point, points, shard
from simfl.study.studyfile import Interval, Sample, Study
from tests.study.studies import session, write_study


def sample(method: str, size: int, **intervals: Interval) -> np.ndarray:
    """The points drawn, one row each."""
    return np.array(draw(Sample(method=method, size=size, over=intervals)))


def test_variants_grid_and_sample_are_crossed(tmp_path: Path) -> None:
    """All combinations; later kinds of keys take precedence over earlier ones."""
    study = Study.from_yaml(
        write_study(
            tmp_path,
            set={"stop.versions": 7, "algorithm.local.steps": 9},
            points={
                "variants": {
                    "a": {"algorithm": {"name": "fedavg", "local": {"steps": 8}}},
                    "b": {},
                },
                "grid": {"algorithm.local.steps": [1, 2, 3]},
                "sample": {
                    "method": "latin_hypercube",
                    "size": 2,
                    "over": {"algorithm.local.learning_rate": {"low": 0.1, "high": 0.2}},
                },
            },
        )
    )

    found = settings(study)

    assert len(found) == 2 * 3 * 2
    assert list(found[0].factors) == [
        "variant",
        "algorithm.local.steps",
        "algorithm.local.learning_rate",
    ]
    assert {(one.factors["variant"], one.values["algorithm.local.steps"][0]) for one in found} == {
        (name, steps) for name in "ab" for steps in (1, 2, 3)
    }
    assert all(one.values["stop.versions"][0] == 7 for one in found)
    for point in points(study):
        local = point.scenario.as_given()["algorithm"]["local"]
        assert local["steps"] == point.factors["algorithm.local.steps"]


def test_whole_numbers_that_are_drawn_twice_are_one_setting(tmp_path: Path) -> None:
    """Crossed with a grid, every run is identified by its seed and factors."""
    whole = {"algorithm.local.steps": {"low": 1, "high": 2, "integer": True}}
    over = {"method": "latin_hypercube", "size": 4, "over": whole}
    grid = {"population.groups.0.device": ["rpi_4b", "rpi_5"]}
    points = {"grid": grid, "sample": over}

    found = [tuple(one.factors.values()) for one in settings(study_of(tmp_path, points))]

    assert sorted(found) == [(device, steps) for device in ("rpi_4b", "rpi_5") for steps in (1, 2)]
    both = {**whole, "stop.versions": {"low": 1, "high": 2, "integer": True}}
    design = {"method": "saltelli", "size": 4, "over": both}
    assert len(settings(study_of(tmp_path, {"sample": design}))) == 4 * 4


def study_of(folder: Path, points: dict[str, Any]) -> Study:
    """The tiny study with other points."""
    return Study.from_yaml(write_study(folder, points=points))


@pytest.mark.parametrize("key", ["algorithm.local.steps", "algorithm.local.learning_rate"])
def test_an_interval_of_whole_numbers_is_told_how_to_draw_them(key: str, tmp_path: Path) -> None:
    """If the key accepts no others; other errors are unchanged."""
    low = 1.5 if key.endswith("steps") else -1.0
    sampled = {"method": "sobol", "size": 2, "over": {key: {"low": low, "high": low + 1.0}}}
    study = Study.from_yaml(write_study(tmp_path, points={"sample": sampled}))

    with pytest.raises(ScenarioError, match=f"{key}: found") as refused:
        points(study)

    hint = "; 'integer: true' beside low and high gives whole numbers"
    assert (hint in str(refused.value)) == key.endswith("steps")


def test_a_latin_hypercube_has_one_point_per_stratum() -> None:
    """In every dimension, also on a logarithmic scale."""
    over = {
        "a": Interval(low=2.0, high=4.0),
        "b": Interval(low=1.0e-3, high=1.0e3, scale="log"),
    }

    drawn = sample("latin_hypercube", 10, **over)

    strata = np.floor((drawn[:, 0] - 2.0) / 0.2), np.floor((np.log10(drawn[:, 1]) + 3) / 0.6)
    for one in strata:
        assert sorted(one) == list(range(10))


def test_a_sobol_sample_is_balanced() -> None:
    """Sixteen points in two dimensions: one in each cell of a 4 x 4 grid; equal seeds, equal
    points."""
    over = {"a": Interval(low=0.0, high=4.0), "b": Interval(low=0.0, high=4.0)}

    drawn = sample("sobol", 16, **over)

    assert len({tuple(cell) for cell in np.floor(drawn)}) == 16
    assert (drawn == sample("sobol", 16, **over)).all()


def test_whole_numbers_are_equally_likely() -> None:
    """From the lowest to the highest, both included."""
    drawn = sample("sobol", 64, a=Interval(low=1, high=4, integer=True))

    assert np.bincount(drawn[:, 0].astype(int)).tolist() == [0, 16, 16, 16, 16]


def test_points_are_known_by_what_they_simulate(tmp_path: Path) -> None:
    """Equal simulations have equal digests however they are written; names do not count."""
    study = Study.from_yaml(
        write_study(
            tmp_path,
            seeds=[1],
            points={
                "variants": {
                    "plain": {},
                    "written": {"algorithm.local.learning_rate": 0.1, "name": "other"},
                    "device": {"population.groups.0.device": "rpi_5"},
                }
            },
        )
    )

    plain, written, device = points(study)

    assert plain.digest == written.digest != device.digest
    assert labels([plain]) == {plain.folder_name: "variant=plain, seed=1"}


def test_points_that_differ_in_an_unread_key_are_one_run(tmp_path: Path) -> None:
    """Where only some points read a key that the study sets, the others are without it."""
    tiers = {"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 1}
    study = Study.from_yaml(
        write_study(
            tmp_path,
            seeds=[1],
            set={"population.backhaul": "lte_2021"},
            points={
                "variants": {"flat": {}, "tiers": {"protocol": tiers}},
                "grid": {"decisions.scheduling": ["greedy", "random"]},
            },
        )
    )

    flat, again, greedy, random = points(study)

    assert flat.digest == again.digest
    assert len({flat.digest, greedy.digest, random.digest}) == 3
    assert not flat.scenario.holds(("population", "backhaul"))
    assert not flat.scenario.holds(("decisions", "scheduling"))
    assert greedy.scenario.holds(("population", "backhaul"))


def test_a_factor_may_be_null(tmp_path: Path) -> None:
    """As if the point did not set the key: who waits for nobody has no limit that is unread."""

    def found(**point: Any) -> list[Point]:
        return points(Study.from_yaml(write_study(tmp_path, seeds=[1], points=point)))

    without, waits = found(grid={"protocol.wait_for": [None, {"clients": 3, "limit_s": 3600.0}]})

    assert without.digest == found(variants={"plain": {}})[0].digest != waits.digest
    for one in (without, waits):
        idle = held(one.scenario, outlined(one.scenario).unread)
        assert not [keys for keys in idle if keys[0] == "protocol"]


@pytest.mark.parametrize(("lists", "count"), [(2, 2 * 3 * 3), (4, 2 * (1 + 4 * 2))])
def test_every_value_of_a_search_is_in_a_corner(tmp_path: Path, lists: int, count: int) -> None:
    """Lists with each other, or where that would be many one after the other; and both ends."""
    over = {f"key{place}": ["a", "b", {"label": "c", "value": 3}] for place in range(lists)}
    over["x"] = {"low": 1.5, "high": 4.0, "integer": True}
    search = {"trials": 2, "over": over, "minimize": "time_s"}
    study = Study.from_yaml(write_study(tmp_path, points=None, search=search))

    found = corners(study)

    assert len(found) == count
    for key in list(over)[:-1]:
        assert {one.values[key][0] for one in found} == {"a", "b", 3}
        assert {one.factors[key] for one in found} == {"a", "b", "c"}
    assert {one.values["x"][0] for one in found} == {2, 4}
    assert (chosen(study, [2] * lists + [3]).values["key0"][0]) == 3


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 9])
def test_shards_divide_the_points(tmp_path: Path, count: int) -> None:
    """Each point is in one share; sizes differ by at most one; points of one seed are
    neighbours.
    """
    whole = points(Study.from_yaml(write_study(tmp_path)))

    shares = [shard(whole, index, count) for index in range(1, count + 1)]

    together = [point.digest for share in shares for point in share]
    assert sorted(together) == sorted(point.digest for point in whole)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    if count == 2:
        assert all(len({point.seed for point in share}) == 1 for share in shares)


def test_own_parts_lie_beside_the_study_or_beside_the_scenario(tmp_path: Path) -> None:
    """Also for a study of a shipped scenario, which is elsewhere; the study's own come first."""
    there, here = tmp_path / "shipped", tmp_path / "mine"
    own = (
        "from simfl.plugins import CountedSelection\n"
        "class Own(CountedSelection):\n"
        "    def decide(self, memory, view, rng):\n"
        "        return memory, view.clients[: self.wanted(view.clients.size)]\n"
    )
    for folder, names in ((there, ("old.py", "both.py")), (here, ("new.py", "both.py"))):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(own)
    write_study(there)
    shipped = {"known": there / "base.yaml"}
    grid = {
        "decisions.selection": [
            {"name": "new.py:Own", "count": 1},
            {"label": "old", "value": {"name": "old.py:Own", "count": 1}},
            {"name": "both.py:Own", "count": 1},
        ]
    }
    content = {"scenario": "known", "points": {"grid": grid}, "seeds": [1]}
    (here / "study.yaml").write_text(yaml.safe_dump(content))

    found = points(Study.from_yaml(here / "study.yaml", shipped))

    assert [one.scenario.decisions.selection.name for one in found] == [
        f"{here}/new.py:Own",
        "old.py:Own",
        f"{here}/both.py:Own",
    ]
    assert str(here) not in str(found[0].factors)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (["rpi_44", "rpi_5"], r"groups\.0\.device: unknown device 'rpi_44', did you mean"),
        (
            ["rpi_3b_plus", "rpi_5"],
            r"compare\.0\.baseline: found 'rpi_4b', accepted: one of rpi_3b_plus",
        ),
    ],
)
def test_a_level_that_is_misspelt_is_not_told_as_a_wrong_baseline(
    tmp_path: Path, levels: list[str], words: str
) -> None:
    """A baseline is looked for among levels that exist."""
    key = "population.groups.0.device"
    questions = {"compare": [{"factor": key, "baseline": "rpi_4b"}]}

    with pytest.raises(ScenarioError, match=words):
        session(tmp_path, points={"grid": {key: levels}}, questions=questions)
