"""A server gives up clients whose rounds are broken off some time later, not at that moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.common.arrays import FloatArray
from tests.protocols.faults import Watched, check_promises, faulty, outages

AFTER_S = 0.1
CRASHES = {"clients": outages(0.6, 0.01)}
LOSSES = {"probability": 0.3, "timeout_s": 0.001, "attempts_max": 1}
SHARED = {"name": "processor_sharing", "capacity_bps": 1e8}
ONE_LINK_EACH_OR_SHARED = pytest.mark.parametrize("sharing", ["dedicated", SHARED], ids=str)


def watched(protocol: Any, folder: Path, after_s: float = AFTER_S, **population: Any) -> Watched:
    """A run of clients that crash often and are soon repaired."""
    trouble = {"faults": CRASHES, **population, "noticed_after_s": after_s}
    return Watched(faulty(protocol, versions=30, **trouble), folder)


def kinds(one: Watched) -> set[str]:
    """The warnings of its client rounds."""
    return {notice.kind for notice in one.run.warnings}


def broken_off(events: pd.DataFrame) -> pd.DataFrame:
    """The crashes of clients in rounds: who, when, and in which round."""
    crashes = events.query("kind == 'crash' and client >= 0")
    assert len(crashes) >= 3
    return crashes


def again_s(one: Watched) -> FloatArray:
    """How long after each crash its client begins another round."""
    begun = one.events.query("kind == 'download' and client >= 0")
    waits_s = []
    for crash in broken_off(one.events).itertuples():
        again = begun.query("client == @crash.client and start_s > @crash.time_s")["start_s"]
        waits_s += [again.min() - crash.time_s] if len(again) else []
    return np.array(waits_s)


@ONE_LINK_EACH_OR_SHARED
def test_a_round_lasts_until_its_server_knows_of_every_crash(tmp_path: Path, sharing: Any) -> None:
    """A synchronous server aggregates no sooner than that after the last crash of the round."""
    one = watched("synchronous", tmp_path, access_sharing=sharing)

    check_promises(one)
    closes_s = one.events.query("kind == 'cloud_aggregate'").groupby("round")["start_s"].min()
    crashes = broken_off(one.events).query("round in @closes_s.index")
    assert len(crashes) >= 3
    waited_s = closes_s[crashes["round"]].to_numpy() - crashes["time_s"].to_numpy()
    assert (waited_s >= AFTER_S - 1e-12).all()
    assert np.isclose(waited_s, AFTER_S).any()  # and no longer for the last of them
    uploads = one.events.query("kind == 'upload' and client >= 0").groupby("round")["time_s"]
    after_upload_s = (closes_s - uploads.max()).drop(crashes["round"].unique()).dropna()
    assert after_upload_s.size
    assert (after_upload_s < 1e-9).all()  # and not at all where nobody crashes
    assert "noticed_at_once" not in kinds(one)


@ONE_LINK_EACH_OR_SHARED
@pytest.mark.parametrize("protocol", ["synchronous", "hierarchical"])
def test_a_client_is_not_used_before_its_server_knows(
    tmp_path: Path, protocol: str, sharing: Any
) -> None:
    """Although it is repaired long before, and the rounds, with a deadline, go on without it."""
    impatient = {"name": protocol, "patience": {"deadline_s": 0.05}}
    one = watched(impatient, tmp_path, access_sharing=sharing)
    at_once = watched(impatient, tmp_path / "at_once", 0.0, access_sharing=sharing)

    check_promises(one)
    assert again_s(one).min() >= AFTER_S - 1e-12
    assert again_s(at_once).min() < AFTER_S / 2


def test_by_default_it_knows_at_once_and_the_run_says_so(tmp_path: Path) -> None:
    """The rounds that a crash ended are counted."""
    one = watched("synchronous", tmp_path, 0.0)

    closes_s = one.events.query("kind == 'cloud_aggregate'").groupby("round")["start_s"].min()
    crashes = broken_off(one.events)
    ended = crashes[crashes["round"].map(closes_s) == crashes["time_s"]]
    (notice,) = (one for one in one.run.warnings if one.kind == "noticed_at_once")
    assert notice.count == ended["round"].nunique() > 0
    assert notice.first_s == ended["time_s"].min()


def test_a_deadline_ends_the_wait(tmp_path: Path) -> None:
    """A server with a deadline does not wait for what it does not know of any longer."""
    protocol = {"name": "synchronous", "patience": {"deadline_s": 0.2}}
    one = watched(protocol, tmp_path, 50.0)

    closes_s = one.events.query("kind == 'cloud_aggregate'").groupby("round")["start_s"].min()
    begun = one.events.query("kind == 'download' and client >= 0")
    begun_s = begun.groupby("round")["start_s"].min()
    assert (closes_s - begun_s[closes_s.index] <= 0.2 + 1e-12).all()
    assert len(broken_off(one.events))


def test_messages_lost_for_good_are_noticed_as_late(tmp_path: Path) -> None:
    """The server of a client whose only attempt failed waits for it."""
    losses = {"faults": {}, "message_loss": LOSSES}
    at_once = watched("synchronous", tmp_path / "0", 0.0, **losses)
    later = watched("synchronous", tmp_path / "1", **losses)

    assert kinds(at_once) >= {"noticed_at_once"}
    assert not kinds(later) & {"noticed_at_once"}
    first, second = (one.run.publications.rounds[0]["time_s"] for one in (at_once, later))
    assert second >= first + AFTER_S - 0.01


def test_where_no_round_is_broken_off_nothing_reads_it() -> None:
    """The digest is that of the scenario without it."""
    calm = assemble(faulty("synchronous"), Options(device="cpu"))
    named = assemble(faulty("synchronous", noticed_after_s=9.0), Options(device="cpu"))

    assert named.digest == calm.digest
    assert dict(named.unread_keys)["population.noticed_after_s"].startswith("no client round")
