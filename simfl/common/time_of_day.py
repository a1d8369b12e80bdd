"""Times of day in scenarios: "11:30" or "11:30:15", and seconds after midnight."""

from __future__ import annotations

PATTERN = r"^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"
"""Hours, minutes and optional seconds."""
EXAMPLE = "11:30"
DAY_S = 86_400.0


class TimeOfDay:
    """Marks a key (in `Annotated`) that accepts a time of day.

    A key of type float also accepts seconds after midnight, and its value is in seconds; the value
    of a key of type str is the text.
    """


TIME_OF_DAY = TimeOfDay()


def seconds_after_midnight(text: str) -> float:
    """Seconds after midnight of a time of day that matches `PATTERN`."""
    hours, minutes, seconds = (*map(int, text.split(":")), 0)[:3]
    return 3600.0 * hours + 60.0 * minutes + seconds


def tidy(text: str) -> str:
    """A time of day in its standard form: 07:05, with seconds only if they are not 0."""
    hours, minutes, *seconds = text.split(":")
    return ":".join([f"{int(hours):02d}", minutes, *(one for one in seconds if one != "00")])


def shown(time_s: float) -> str:
    """Seconds after midnight as a time of day; whole days are dropped."""
    minutes, seconds = divmod(round(time_s) % round(DAY_S), 60)
    return tidy(f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}")


def next_day(time_s: float) -> str:
    """A hint on how to write the same time of the next day."""
    return f"{shown(time_s)} of the next day is {time_s + DAY_S:.0f}"
