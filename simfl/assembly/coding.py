"""The codecs of a run: which act on values, and which only size messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from simfl.algorithms.base import Algorithm
from simfl.assembly.registry import discover
from simfl.common.contract import is_users_own
from simfl.common.part_name import part_name
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.codecs.messages import Coding
from simfl.scenario.scenario import Keys
from simfl.system.codecs.base import Codec

Direction = Literal["uplink", "downlink"]
DIRECTIONS: tuple[Direction, ...] = ("uplink", "downlink")


def coding_of(parts: Mapping[Keys, Any]) -> Coding:
    """The effect of a scenario's codecs on its algorithm's values."""
    algorithm: Algorithm = parts[("algorithm",)]
    return Coding(
        **{
            direction: value_codec(codec_of(parts, direction))
            for direction in DIRECTIONS
            if algorithm.learns and direction not in algorithm.uncoded
        }
    )


def codec_of(parts: Mapping[Keys, Any], direction: Direction) -> Codec:
    """The codec of this direction."""
    codec: Codec = parts[("population", f"{direction}_codec")]
    return codec


def value_codec(codec: Codec) -> ValueCodec | None:
    """The value codec behind a codec; None: values stay unchanged."""
    if codec.exact or not codec.values:
        return None
    if isinstance(codec, ValueCodec):
        return codec
    if is_users_own(codec):
        return None
    acting = discover("simfl.learning.codecs", "simfl.learning.codecs.base:ValueCodec")
    found = acting.get(part_name(type(codec)))
    if found is None:
        return None
    settings = {one.name: getattr(codec, one.name) for one in dataclasses.fields(found)}
    made: ValueCodec = found(**settings)
    return made


def sized_only(parts: Mapping[Keys, Any]) -> dict[Direction, Codec]:
    """The codecs that only size messages of learned values."""
    algorithm: Algorithm = parts[("algorithm",)]
    if not algorithm.learns:
        return {}
    coding = coding_of(parts)
    codecs = {direction: codec_of(parts, direction) for direction in DIRECTIONS}
    return {
        direction: codec
        for direction, codec in codecs.items()
        if not codec.exact and getattr(coding, direction) is None
    }
