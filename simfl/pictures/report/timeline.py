"""The timeline in a run's report: what each machine did at which time."""

from __future__ import annotations

from simfl.pictures.colours import radio_tails
from simfl.pictures.report import charts
from simfl.pictures.report.page import Page
from simfl.runs.runfolder import LoadedRun

MOST_SLICES, MOST_ACTORS = 4000, 40
"""Limits of the timeline; the run folder and `simfl trace` have everything."""


def timeline(page: Page, run: LoadedRun) -> None:
    """A bar for each activity of a machine, up to `MOST_SLICES` and `MOST_ACTORS`."""
    page.heading("Timeline")
    drawn = run.events[
        run.events["kind"].isin(charts.KIND_COLOURS) & (run.events["kind"] != "idle")
    ]
    drawn = drawn[drawn["duration_s"] > 0]
    if drawn.empty:
        page.text("The run kept no events (log.level: rounds).", "note")
        return
    order = sorted(drawn["actor"].unique(), key=_actor_key)
    actors = order[:MOST_ACTORS]
    theirs = drawn[drawn["actor"].isin(actors)].sort_values("start_s")
    chosen = theirs.head(MOST_SLICES)
    kinds = {
        kind: (own["actor"].tolist(), own["start_s"].tolist(), own["duration_s"].tolist())
        for kind in charts.KIND_COLOURS
        if len(own := chosen[chosen["kind"] == kind])
    }
    end_s = run.manifest["horizon_s"]
    # After the first omitted slice, machines that seem to wait may be doing something.
    whole_s = end_s if len(chosen) == len(theirs) else theirs["start_s"].iloc[MOST_SLICES]
    if len(chosen) < len(drawn):
        page.text(
            f"The first {whole_s:.4g} s of {end_s:.4g} s, {len(actors)} of"
            f" {len(order)} machines; simfl trace writes all of it for Perfetto.",
            "note",
        )
    if "tail" in kinds:
        page.text(f"{radio_tails(run)} Its bars are pale.", "note")
    page.charts(
        (
            "what each machine does (blank: it waits)",
            charts.slices(kinds, actors, "simulated time (s)"),
        ),
        wide=True,
    )


def _actor_key(actor: str) -> tuple[int, int]:
    """Servers first, then clients by number."""
    tier, _, number = actor.partition("-")
    return (("cloud", "network", "edge", "client").index(tier), int(number or 0))
