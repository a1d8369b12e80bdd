"""The rules of Chrome's Trace Event Format, as far as simfl uses it, and of Perfetto's reading.

Format: "Trace Event Format" of the Catapult project: the JSON object format, phases X (complete),
i (instant), C (counter) and M (metadata).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}
RESERVED_COLOURS = {
    "thread_state_uninterruptible",
    "thread_state_iowait",
    "thread_state_running",
    "thread_state_runnable",
    "thread_state_sleeping",
    "thread_state_unknown",
    "rail_response",
    "rail_animation",
    "rail_idle",
    "rail_load",
    "good",
    "bad",
    "terrible",
}


def violations(text: str) -> list[str]:
    """What is wrong with a trace's text; raises ValueError where it is no JSON (NaN is none)."""
    content = json.loads(text, parse_constant=_no_constant)
    found = []
    if content.get("displayTimeUnit") not in ("ms", "ns"):
        found.append("displayTimeUnit is ms or ns")
    events = content["traceEvents"]
    for one in events:
        found += [f"{rule}: {one}" for rule, holds in _rules(one) if not holds]
    return found or [*_nested_badly(events), *_names_missing(events)]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _rules(one: dict[str, Any]) -> list[tuple[str, bool]]:
    args = one.get("args", {})
    rules = [
        ("the phase is one of those used", one.get("ph") in ("X", "i", "C", "M")),
        ("name is text", isinstance(one.get("name"), str) and bool(one["name"])),
        ("pid is an integer above 0", type(one.get("pid")) is int and one["pid"] > 0),
        ("args is an object", isinstance(args, dict)),
    ]
    if one["ph"] != "C":
        rules.append(("tid is an integer", type(one.get("tid")) is int and one["tid"] >= 0))
    if one["ph"] != "M":
        rules.append(("ts is microseconds from 0", _is_number(one.get("ts")) and one["ts"] >= 0))
    match one["ph"]:
        case "X":
            rules += [
                ("dur is microseconds", _is_number(one.get("dur")) and one["dur"] >= 0),
                ("cat is text", isinstance(one.get("cat"), str)),
                ("cname is reserved", one.get("cname", "good") in RESERVED_COLOURS),
            ]
        case "i":
            rules.append(("the scope is g, p or t", one.get("s") in ("g", "p", "t")))
        case "C":
            rules.append(("series are numbers", bool(args) and all(map(_is_number, args.values()))))
        case "M":
            key, kind = METADATA.get(one["name"], ("", object))
            rules.append(("metadata has its argument", type(args.get(key)) is kind))
    return rules


def _nested_badly(events: list[dict[str, Any]]) -> list[str]:
    """Slices of a track that overlap without one lying within the other: Perfetto drops them."""
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in events:
        if one["ph"] == "X":
            slices = tracks.setdefault((one["pid"], one["tid"]), [])
            slices.append((one["ts"], one["ts"] + one["dur"]))
    found = []
    for track, slices in tracks.items():
        open_until: list[float] = []
        for begin, end in sorted(slices, key=lambda own: (own[0], -own[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            if open_until and end > open_until[-1]:
                found.append(f"{track}: {begin} to {end} overlaps what ends at {open_until[-1]}")
            open_until.append(end)
    return found


def _names_missing(events: list[dict[str, Any]]) -> list[str]:
    """Tracks and processes that are not named, or twice."""
    about = Counter(
        (one["name"], one["pid"], one["tid"] if one["name"].startswith("thread") else None)
        for one in events
        if one["ph"] == "M"
    )
    found = [f"{one} stands twice" for one, count in about.items() if count > 1]
    used = [one for one in events if one["ph"] != "M"]
    needed = {("process_name", one["pid"], None) for one in used}
    needed |= {("thread_name", one["pid"], one["tid"]) for one in used if "tid" in one}
    return [*found, *(f"{one} is missing" for one in sorted(needed - set(about), key=str))]
