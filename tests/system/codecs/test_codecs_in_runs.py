"""Codecs as keys of a scenario: what crosses the links of a whole run."""

from __future__ import annotations

import pandas as pd
import pytest

from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.codecs.int8 import Int8
from simfl.system.codecs.top_k import TopK
from tests.small import SEMI_ASYNCHRONOUS, final_weights, largest_difference, simulated, small


def test_messages_have_the_codecs_sizes_on_both_hops(tmp_path):
    """Down as 8-bit integers, up as the largest tenth."""
    codecs = {"downlink_codec": {"name": "int8", "scales": 4}}
    codecs["uplink_codec"] = {"name": "top_k", "share": 0.1}
    scenario = {"protocol": SEMI_ASYNCHRONOUS, "population": codecs, "stop": {"versions": 3}}
    simulation, run = simulated(small(**scenario), tmp_path)
    plain = simulated(small(protocol=SEMI_ASYNCHRONOUS, stop={"versions": 3}))[1]

    raw = simulation.network.size_bytes
    events = pd.read_parquet(tmp_path / "events.parquet")
    whole = events[events["bytes"] > 0]
    for hop in (whole["client"].notna(), whole["client"].isna()):
        down = set(whole.loc[hop & (whole["kind"] == "download"), "bytes"])
        up = set(whole.loc[hop & (whole["kind"] == "upload"), "bytes"])
        assert down == {int(Int8(scales=4).encoded_bytes(raw))}
        assert up == {int(TopK(share=0.1).encoded_bytes(raw))}
    assert all(run.laws.values())
    assert run.clock.now_s < plain.clock.now_s


def test_a_synchronous_run_learns_the_same_through_a_codec_that_only_sizes():
    """With nobody dropped or reordered, sizes change time and joules, not the model."""
    sizing = {"name": "float16", "values": False}
    whole, half = (
        simulated(small(population={"uplink_codec": codec}))[1] for codec in ("float32", sizing)
    )

    assert largest_difference(final_weights(whole), final_weights(half)) == 0.0
    assert half.clock.now_s < whole.clock.now_s
    sent, less = (run.accounts.bytes_by_fate["bytes_sent"] for run in (whole, half))
    assert less * 4 == sent * 3


def test_a_codec_is_checked_where_it_stands():
    """The error names the key, what was found and what is accepted."""
    with pytest.raises(ScenarioError, match=r"population\.uplink_codec\.share: found 0, accepted"):
        simulated(small(population={"uplink_codec": {"name": "top_k", "share": 0}}))
    with pytest.raises(ScenarioError, match=r"population\.downlink_codec\.name: unknown name"):
        simulated(small(population={"downlink_codec": "int9"}))
