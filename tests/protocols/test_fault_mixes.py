"""Random populations, media, faults and protocols: runs end, books balance, a replay is equal."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocols.faults import TIMING, Watched, check_promises
from tests.small import small

SECONDS = st.sampled_from([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
SOJOURNS = st.one_of(
    st.builds(lambda mean_s: {"mean_s": mean_s}, SECONDS),
    st.builds(
        lambda mean_s, law, shape: {"mean_s": mean_s, "law": law, "shape": shape},
        SECONDS,
        st.sampled_from(["weibull", "lognormal"]),
        st.sampled_from([0.4, 1.0, 2.0]),
    ),
)
OUTAGES = st.none() | st.fixed_dictionaries({"works": SOJOURNS, "broken": SOJOURNS})
AVAILABILITIES = st.one_of(
    st.just("always"),
    st.builds(
        lambda period_s, share: {"name": "periodic", "period_s": period_s, "share": share},
        SECONDS,
        st.sampled_from([0.1, 0.5, 1.0]),
    ),
    st.builds(
        lambda present, absent: {"name": "renewal", "present": present, "absent": absent},
        SOJOURNS,
        SOJOURNS,
    ),
)
# A phone's battery holds 17 to 19 kJ per cell: these are tenths of a joule.
BATTERIES = st.none() | st.builds(
    lambda high, low, charge_w, unplug_s: {
        "initial": [low * high, high],
        "lowest": high / 3,
        "charge_w": charge_w,
        "plug_in_s": 0.0,
        "unplug_s": unplug_s,
        "hours_spread_s": 0.2,
    },
    st.sampled_from([3e-6, 1e-5, 1e-4]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 1.0, 20.0]),
    st.sampled_from([0.3, 43_200.0]),
)
PATIENCE = st.fixed_dictionaries(
    {
        "deadline_s": st.none() | SECONDS,
        "over_selection": st.sampled_from([1.0, 1.5]),
        "late": st.sampled_from(["drop", "carry_over"]),
    }
)
PROTOCOLS = st.one_of(
    st.builds(lambda patience: {"name": "synchronous", "patience": patience}, PATIENCE),
    st.builds(
        lambda rounds, patience: {
            "name": "hierarchical",
            "edge_rounds": rounds,
            "patience": patience,
        },
        st.integers(1, 3),
        PATIENCE,
    ),
    st.builds(
        lambda rounds, at_once, patience: {
            "name": "semi_asynchronous",
            "edge_rounds": rounds,
            "concurrency": at_once,
            "patience": patience,
        },
        st.integers(1, 3),
        st.integers(1, 3),
        PATIENCE,
    ),
    st.builds(lambda most: {"name": "asynchronous", "concurrency": most}, st.integers(1, 9)),
    st.builds(
        lambda size, most: {"name": "buffered", "buffer": size, "concurrency": most},
        st.integers(1, 4),
        st.integers(1, 9),
    ),
)
SHARING = st.sampled_from(
    [
        "dedicated",
        "ofdma_equal",
        "throughput_fair",
        "fifo",
        {"name": "processor_sharing", "capacity_bps": 1e6},
    ]
)
POPULATIONS = st.fixed_dictionaries(
    {
        "clients": st.integers(3, 10),
        "edges": st.integers(1, 3),
        "availability": AVAILABILITIES,
        "leaving": st.sampled_from(["ignore", "pause", "abort"]),
        "noticed_after_s": st.sampled_from([0.0, 0.05]),
        "message_loss": st.none()
        | st.builds(
            lambda probability: {"probability": probability, "timeout_s": 0.01, "attempts_max": 2},
            st.sampled_from([0.1, 0.5, 1.0]),
        ),
        "faults": st.fixed_dictionaries(
            {"clients": OUTAGES, "edge_servers": OUTAGES, "cloud_link": OUTAGES}
        ),
        "batteries": BATTERIES,
        "access_sharing": SHARING,
        "backhaul_sharing": SHARING,
    }
)


def no_more_than_there_are(mix: dict[str, Any]) -> dict[str, Any]:
    """The mix with a count that the fullest edge server has clients for, and as many in flight."""
    protocol = mix["protocol"]
    tiers = protocol["name"] in ("hierarchical", "semi_asynchronous")
    edges = mix["population"]["edges"] if tiers else 1
    most = -(-mix["population"]["clients"] // edges)
    if not tiers and protocol.get("concurrency", 0) > most:
        mix = {**mix, "protocol": {**protocol, "concurrency": most}}
    if mix["decisions"] and most < mix["decisions"]["selection"]["count"]:
        return {**mix, "decisions": {"selection": {"name": "random", "count": most}}}
    return mix


MIXES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "population": POPULATIONS,
        "protocol": PROTOCOLS,
        "decisions": st.sampled_from([{}, {"selection": {"name": "random", "count": 2}}]),
    }
).map(no_more_than_there_are)


def check(mix: dict[str, Any]) -> None:
    """A run of the mix ends, for a good reason; its laws hold, and a second run is the same."""
    scenario = small(algorithm=TIMING, stop={"versions": 8, "time_s": 1.0}, **mix)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second"):
            watched = Watched(scenario, Path(folder) / name)
            check_promises(watched)
            run = watched.run
            ended = run.publications.rounds and run.publications.rounds[-1]["version"] == 8
            assert ended or watched.stalled or run.clock.now_s == 1.0
            found.append((watched.stalled, run.clock.now_s, watched.events))
    (stalled, now_s, events), again = found
    assert (stalled, now_s) == again[:2]
    assert events.equals(again[2])


@given(mix=MIXES)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_promises_are_kept(mix: dict[str, Any]) -> None:
    """A handful of mixes; the thousand are below."""
    check(mix)


@pytest.mark.slow
@given(mix=MIXES)
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_thousand_mixes(mix: dict[str, Any]) -> None:
    """1,000 random mixes of populations, faults and protocols."""
    check(mix)
