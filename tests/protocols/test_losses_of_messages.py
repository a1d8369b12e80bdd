"""Lost messages: what they cost, and that no protocol waits for what never comes."""

import pandas as pd
import pytest

from simfl.protocols.clock import Stalled
from tests.small import SEMI_ASYNCHRONOUS, simulated, small

PROTOCOLS = {
    "synchronous": "synchronous",
    "semi_asynchronous": SEMI_ASYNCHRONOUS,
    "hierarchical": {"name": "hierarchical", "edge_rounds": 2},
    "asynchronous": "asynchronous",
    "buffered": {"name": "buffered", "buffer": 3},
}


def lossy(tmp_path, protocol, probability, **changes):
    """A run over links that lose messages, and its events."""
    loss = {"probability": probability, "timeout_s": 0.1, "attempts_max": 2}
    scenario = small(
        protocol=PROTOCOLS[protocol],
        population={"message_loss": loss},
        stop={"versions": 12},
        **changes,
    )
    run = simulated(scenario, tmp_path)[1]
    return run, pd.read_parquet(tmp_path / "events.parquet")


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_every_protocol_ends_and_its_books_balance(tmp_path, protocol):
    """A third of all attempts is lost, a ninth of all messages for good."""
    run, events = lossy(tmp_path, protocol, 1 / 3)

    traffic = run.accounts.bytes_by_fate
    moves = events["kind"].isin(["download", "upload"])
    assert all(run.laws.values()), run.accounts.violations
    assert run.publications.rounds[-1]["version"] == 12
    assert traffic["bytes_lost"] > 0
    assert (
        traffic["bytes_sent"]
        == traffic["bytes_received"] + traffic["bytes_lost"] + traffic["bytes_in_flight"]
    )
    assert events.loc[moves, "bytes"].sum() == traffic["bytes_received"]


def test_a_failed_download_ends_the_turn_and_a_failed_upload_brings_nothing(tmp_path):
    """No training after a download that failed; an aggregation holds the uploads that arrived."""
    run, events = lossy(tmp_path, "synchronous", 0.5)

    client_rounds = events[events["client"].notna()].groupby(["client", "round"])
    for _, rows in client_rounds:
        kinds = rows.set_index("kind")
        if "download" in kinds.index and kinds.loc["download", "bytes"] == 0:
            assert not {"compute", "upload"} & set(kinds.index)
    arrived = events.query("kind == 'upload' and bytes > 0").groupby("round").size()
    merged = events.query("kind == 'cloud_aggregate'").set_index("round")["detail"]
    assert {f'{{"updates": {count}}}' for count in arrived} >= set(merged)
    assert all(merged[number] == f'{{"updates": {arrived[number]}}}' for number in merged.index)
    assert run.values.trainer.trained == arrived[merged.index].sum()


def test_where_nothing_ever_arrives_the_run_says_so(tmp_path, monkeypatch):
    """Links that lose everything stall the run instead of spinning for ever."""
    monkeypatch.setattr("simfl.protocols.stall_guard.MOST_FAILURES", 100)
    with pytest.raises(Stalled, match="rounds in a row brought no update"):
        lossy(tmp_path, "synchronous", 1.0)
