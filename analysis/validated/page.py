"""The tables and the picture of docs/validation.md, from analysis/results/validation/."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter

from simfl.common.files import replacing
from simfl.pictures.colours import COLOURS
from simfl.pictures.style import STYLE
from simfl.system.catalogue import Catalogue
from validated.families import PUBLISHED, ROOT
from validated.scores import (
    BANDS,
    coverage,
    factor_needed,
    interval_score,
    relative_width,
    within,
)

RESULTS = ROOT / "analysis" / "results" / "validation"
PAGE = ROOT / "docs" / "validation.md"
PICTURE = PAGE.with_suffix(".png")
BLOCK = re.compile(r"(<!-- validation (\w+)(?:: ([^\n]*?))? -->\n).*?(<!-- end -->)", re.S)

SPREADS = (2.0, 3.0, 4.0, 5.0, 6.0)
POWERS = ("processor.power_active_w", "processor.power_table", "processor.kappa")
"""Figures of a profile that say what it draws while it computes."""


@dataclass(frozen=True)
class Results:
    """What was computed: tables as they lie in `RESULTS`.

    `predictions` has the columns of `Held.cells`, `rankings` those of `rankings`, `layers` the
    median errors of FLASH's layers, `one_rate` the ratios of the catalogue's single rates, `before`
    the predictions without any row, `by_profile` the ratios of shipped profiles on other models;
    `power_by_profile`, `power_networks`, `power_held_out` and
    `for_one_model` are those of `validated.power`.
    """

    predictions: pd.DataFrame
    rankings: pd.DataFrame
    layers: pd.DataFrame
    one_rate: pd.DataFrame
    by_profile: pd.DataFrame
    before: pd.DataFrame
    power_by_profile: pd.DataFrame
    power_networks: pd.DataFrame
    power_held_out: pd.DataFrame
    for_one_model: pd.DataFrame

    def write(self, folder: Path = RESULTS) -> None:
        """One file per table."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in vars(self).items():
            with replacing(folder / f"{name}.csv") as partial:
                table.to_csv(partial, index=False, float_format="%.5g", lineterminator="\n")


def read_results(folder: Path = RESULTS) -> Results:
    """The tables, as they were written."""
    empty = ("plain", "plain_low", "plain_high")
    keep = {"keep_default_na": False, "na_values": dict.fromkeys(empty, "")}
    names = [one.name for one in fields(Results)]
    return Results(*(pd.read_csv(folder / f"{name}.csv", **keep) for name in names))


def filled(page: str, results: Results) -> str:
    """The text of the page with its blocks made anew."""
    tables: dict[str, Callable[[str], pd.DataFrame]] = {
        "families": lambda _: families(results.predictions),
        "models": lambda words: models(results.predictions, words),
        "layers": lambda _: layers(results),
        "rankings": lambda _: rankings(results.rankings),
        "before": lambda _: families(results.before, with_plain=False),
        "one_rate": lambda _: one_rate(results.one_rate),
        "by_profile": lambda _: one_rate(results.by_profile),
        "spread": lambda _: spread(results.one_rate),
        "powers": lambda _: powers(),
        "published": lambda _: published(),
        "power_by_profile": lambda _: power_by_profile(results.power_by_profile),
        "power_networks": lambda _: power_networks(results.power_networks),
        "power_held_out": lambda _: power_held_out(results.power_held_out),
        "for_one_model": lambda _: for_one_model(results.for_one_model),
    }

    def made(block: re.Match[str]) -> str:
        opening, name, words, closing = block.groups()
        return f"{opening}{markdown(tables[name](words or ''))}\n{closing}"

    return BLOCK.sub(made, page)


def markdown(table: pd.DataFrame) -> str:
    """The table in Markdown."""
    rows = [table.columns, ["---"] * table.shape[1], *table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def families(predictions: pd.DataFrame, with_plain: bool = True) -> pd.DataFrame:
    """A row per family: errors, coverage, width, and the interval score beside the baseline's."""
    rows = []
    for family, own in predictions.groupby("family", sort=False):
        off = np.exp(np.abs(np.log(own["predicted"] / own["measured"])))
        row: dict[str, object] = {
            "held out": family,
            "predictions": len(own),
            "typical factor": f"{off.median():.2f}",
            "worst": f"{off.max():.2f}",
            "in the 90 % interval": f"{coverage(own) * len(own):.0f} ({coverage(own):.0%})",
            "median width": f"{relative_width(own):.0%}",
        }
        if with_plain:
            both = own.dropna(subset="plain")
            row |= {
                "interval score": f"{interval_score(both):.2f}",
                "one lognormal's": f"{interval_score(both, 'plain_'):.2f}",
                "its coverage": f"{coverage(both, 'plain_') * len(both):.0f} of {len(both)}",
            }
        rows.append(row)
    return pd.DataFrame(rows)


def models(predictions: pd.DataFrame, family: str) -> pd.DataFrame:
    """The predictions of one family, one by one."""
    own = predictions[predictions["family"] == family]
    if own.empty:
        raise ValueError(f"no family {family!r}")
    several = own["device"].nunique() > 1
    rows = []
    for one in own.itertuples():
        inside = one.low <= one.measured <= one.high
        rows.append(
            {
                **({"device": one.device} if several else {}),
                "left out": f"`{one.subject}`",
                "measured": f"{one.measured:.4g} s",
                "predicted": f"{one.predicted:.4g} s",
                "ratio": f"{one.predicted / one.measured:.2f}",
                "90 % interval": f"{one.low:.3g} to {one.high:.3g} s",
                "in it": "yes" if inside else "no",
                "not in rows": one.missing.replace(" ", ", ") or "-",
            }
        )
    return pd.DataFrame(rows)


def layers(results: Results) -> pd.DataFrame:
    """Median errors of single layers, and how their intervals do."""
    tested = results.predictions.groupby(["device", "subject"])
    rows = []
    for one in results.layers.itertuples():
        own = tested.get_group((one.phone, one.layer))
        rows.append(
            {
                "phone": one.phone,
                "layer": one.layer,
                "shipped profile": f"{one.shipped:.0%}",
                "calibrated": f"{one.calibrated:.0%}",
                "in the 90 % interval": f"{coverage(own):.0%}",
                "median width": f"{relative_width(own):.0%}",
            }
        )
    return pd.DataFrame(rows)


def rankings(pairs: pd.DataFrame) -> pd.DataFrame:
    """By what probability was called: how many pairs are in that order."""
    ends = [*BANDS[1:], 1.0 + 1e-9]
    wanted = [
        (low, high, f"{low:g} to {min(high, 1.0):g}") for low, high in zip(BANDS, ends, strict=True)
    ]
    rows = []
    for low, high, name in [*wanted, (0.9, ends[-1], "0.9 and more")]:
        own = pairs[(pairs["probability"] >= low) & (pairs["probability"] < high)]
        if own.empty:
            continue
        right = own["right"].astype(bool)
        rows.append(
            {
                "probability that was called": name,
                "pairs": len(own),
                "mean probability": f"{own['probability'].mean():.3f}",
                "in that order": f"{right.sum()} ({right.mean():.1%})",
            }
        )
    return pd.DataFrame(rows)


def one_rate(ratios: pd.DataFrame) -> pd.DataFrame:
    """Predicted over measured by a profile's one rate: a row per device."""
    rows = []
    for device, own in ratios.groupby("device", sort=False):
        each = ", ".join(f"`{one.subject}` {one.ratio:.2f}" for one in own.itertuples())
        rows.append({"profile": f"`{device}`", "predicted / measured": each})
    return pd.DataFrame(rows)


def spread(ratios: pd.DataFrame) -> pd.DataFrame:
    """How many of the ratios lie within factors, and the factor that 90 % of them need."""
    values = ratios["ratio"].to_numpy(dtype=float)
    rows = [
        {
            "a spread of": f"a factor of {factor:g}",
            "holds": f"{within(values, factor) * len(values):.0f} of {len(values)}"
            f" ({within(values, factor):.0%})",
        }
        for factor in SPREADS
    ]
    needed = {"a spread of": f"a factor of {factor_needed(values):.2f}", "holds": "90 %"}
    return pd.DataFrame([*rows, needed])


def powers() -> pd.DataFrame:
    """Which profiles' powers have a source, and which."""
    rows, without = [], []
    catalogue = Catalogue()
    for name in catalogue.list_profiles("device"):
        sources = catalogue.profile("device", name).sources
        idle = sources.get("power_idle_w")
        training = next((sources[one] for one in POWERS if one in sources), None)
        if idle is None and training is None:
            without.append(f"`{name}`")
            continue
        rows.append(
            {
                "profile": f"`{name}`",
                "idle power from": idle or "unverified",
                "power while it computes from": training or "unverified",
            }
        )
    others = {
        "profile": ", ".join(without),
        "idle power from": "unverified",
        "power while it computes from": "unverified",
    }
    return pd.DataFrame([*rows, others])


def published() -> pd.DataFrame:
    """What was typed in, with where it stands."""
    read = pd.read_csv(PUBLISHED / "training_times.csv", comment="#", keep_default_na=False)
    return pd.DataFrame(
        {
            "device": "`" + read["device"] + "`",
            "model": "`" + read["model"] + "`",
            "batch": read["batch_size"],
            "published": read["published"] + " " + read["unit"],
            "source": read["source"],
            "there": read["place"],
            "note": read["note"],
        }
    )


def power_by_profile(steps: pd.DataFrame) -> pd.DataFrame:
    """Steps of a V100: seconds, watts and joules by its profile; factors are over the measured."""
    return pd.DataFrame(
        {
            "model": f"`{one.model}`",
            "batch": one.batch,
            "a step": f"{1e3 * one.measured_s:.3g} ms",
            "predicted": f"{1e3 * one.predicted_s:.3g} ms ({one.predicted_s / one.measured_s:.2g})",
            "drew": f"{one.measured_w:.0f} W",
            f"{one.shipped_w:.0f} W": f"{one.shipped_w / one.measured_w:.2f}",
            f"{one.limit_w:.0f} W": f"{one.limit_w / one.measured_w:.2f}",
            "an image": f"{one.measured_j:.3g} J",
            f"joules at {one.shipped_w:.0f} W": f"{one.shipped_j / one.measured_j:.2f}",
            f"joules at {one.limit_w:.0f} W": f"{one.limit_j / one.measured_j:.2f}",
        }
        for one in steps.itertuples()
    )


def power_networks(networks: pd.DataFrame) -> pd.DataFrame:
    """What each network drew on each card, and what the others say of it."""
    rows = []
    for one in networks.itertuples():
        shares = f"{one.least_w / one.limit_w:.0%} to {one.most_w / one.limit_w:.0%}"
        rows.append(
            {
                "card": f"{one.gpu}, {one.limit_w} W",
                "left out": f"`{one.model}`",
                "batches": one.rows,
                "drew": f"{one.least_w:.0f} to {one.most_w:.0f} W",
                "of the limit": shares,
                "predicted": f"{one.predicted_w:.0f} W",
                "90 % interval": f"{one.low_w:.0f} to {one.high_w:.0f} W",
                "in it": one.inside,
                "if as busy": one.inside_as_busy,
            }
        )
    return pd.DataFrame(rows)


def for_one_model(pairs: pd.DataFrame) -> pd.DataFrame:
    """How many batches lie in the intervals of profiles for their model, and for any."""
    rows = []
    batches = pairs[["batch", "behind"]]
    far = np.where(batches.max(axis=1) > 2 * batches.min(axis=1), "2 to 4 times", "up to twice")
    for (apart, model), own in pairs.groupby([far, "model"], sort=False):
        row: dict[str, object] = {"network": f"`{model}`", "one is as large": apart}
        row["pairs of batches"] = len(own)
        for name, words in (("", "for this model"), ("any_", "for any model")):
            low, high = own[f"{name}low"], own[f"{name}high"]
            inside = own["measured"].between(low, high)
            row[f"{words}: in the 90 % interval"] = f"{inside.sum()} ({inside.mean():.0%})"
            row[f"{words}: median width"] = f"a factor of {np.sqrt(high / low).median():.2f}"
        rows.append(row)
    return pd.DataFrame(rows)


def power_held_out(held: pd.DataFrame) -> pd.DataFrame:
    """Factors, typical and worst, by one figure for the power and with a share while waiting."""

    def off(own: pd.DataFrame, name: str) -> str:
        """How far a column is off the measured one of its unit."""
        factors = np.exp(np.abs(np.log(own[name] / own[f"measured_{name[-1]}"])))
        return f"{factors.median():.2f} ({factors.max():.2f})"

    rows = []
    for (behind, model), of_cards in held.groupby(["behind", "model"], sort=False):
        of_v100 = of_cards[of_cards["gpu"] == "v100"]
        for cards, own in (("V100", of_v100), ("all four", of_cards)):
            inside = (own["low_j"] <= own["measured_j"]) & (own["measured_j"] <= own["high_j"])
            rows.append(
                {
                    "behind it": behind,
                    "predicted": f"`{model}`",
                    "cards": cards,
                    "rows": len(own),
                    "seconds": off(own, "predicted_s"),
                    "watts, one figure": off(own, "one_w"),
                    "watts, with a share": off(own, "share_w"),
                    "joules, one figure": off(own, "one_j"),
                    "joules, with a share": off(own, "share_j"),
                    "in the 90 % interval": inside.sum(),
                }
            )
    return pd.DataFrame(rows)


def draw(predictions: pd.DataFrame) -> Figure:
    """Predicted over measured of whole models, with 90 % intervals; a colour per family."""
    whole = predictions[~predictions["family"].str.contains("layers")]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 5), layout="constrained")
        axes = figure.subplots()
        axes.axhline(1.0, color="0.6", linewidth=1)
        for place, (family, own) in enumerate(whole.groupby("family", sort=False)):
            colour = COLOURS[place % len(COLOURS)]
            measured = own["measured"]
            low, high = own["low"] / measured, own["high"] / measured
            axes.vlines(measured, low, high, colour, linewidth=1)
            ratio = own["predicted"] / measured
            axes.scatter(measured, ratio, color=colour, s=20, label=family)
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("measured (s)")
        axes.set_ylabel("predicted / measured")
        figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    return figure


def save_picture(predictions: pd.DataFrame, path: Path = PICTURE) -> None:
    """Write the picture as a PNG."""
    with replacing(path, f".partial{path.suffix}") as file, mpl.rc_context(STYLE):
        draw(predictions).savefig(file, format="png", dpi=90)
