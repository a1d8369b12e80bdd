"""Messages through a codec: the decoded values, and the residual that the sender keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from simfl.common.contract import at_work, is_users_own, misbehaves
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.parameters import BYTES_PER_VALUE, Parameters


@dataclass(frozen=True)
class Coding:
    """The codecs of both directions, which change values; None: values arrive unchanged."""

    uplink: ValueCodec | None = None
    downlink: ValueCodec | None = None

    @property
    def acts(self) -> bool:
        """Whether a codec changes any values."""
        return self.uplink is not None or self.downlink is not None

    @property
    def remembers(self) -> bool:
        """Whether clients keep the coding errors of their uploads."""
        return self.uplink is not None and self.uplink.error_feedback


def decoded(codec: ValueCodec, values: Parameters, raw_bytes: int, seed: int) -> Parameters:
    """`values` as decoded by their receiver; `raw_bytes` is the message's price before the codec.

    Randomness is a function of `seed`. Raises `PartMisbehaves` if a user's codec returns invalid
    values.
    """
    if not values:
        return {}
    held = sum(tensor.numel() for tensor in values.values())
    sent = min(raw_bytes // BYTES_PER_VALUE, held)
    generator = torch.Generator().manual_seed(_own(seed))
    if not is_users_own(codec):
        given = codec.code(values, sent, generator)
        return {name: given[name] for name in values}
    # Copies, since a codec could change its input, the sender's weights, in place.
    copies = {name: tensor.clone() for name, tensor in values.items()}
    with at_work(codec, "code"):
        given = codec.code(copies, sent, generator)
    _check(codec, given, values, part=sent < held)
    return {name: given[name] for name in values}


def uploaded(
    codec: ValueCodec,
    wanted: Parameters,
    raw_bytes: int,
    seed: int,
    residual: Parameters | None = None,
) -> tuple[Parameters, Parameters | None]:
    """The upload of `wanted` as decoded by the server, and the residual after it.

    `residual` holds the coding errors of earlier uploads, by name; None without error feedback.
    """
    if not codec.error_feedback:
        return decoded(codec, wanted, raw_bytes, seed), None
    held = residual or {}
    wanted = {name: one + held[name] if name in held else one for name, one in wanted.items()}
    arrived = decoded(codec, wanted, raw_bytes, seed)
    return arrived, {**held, **{name: one - arrived[name] for name, one in wanted.items()}}


def _own(seed: int) -> int:
    """A 63-bit seed, derived from this one for codecs only."""
    digest = hashlib.blake2b(f"codec/{seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _check(codec: ValueCodec, given: object, values: Mapping[str, Tensor], *, part: bool) -> None:
    if not isinstance(given, Mapping):
        raise misbehaves(codec, "code", given, "tensors by name")
    for name, like in values.items():
        found = given.get(name)
        if not isinstance(found, Tensor):
            raise misbehaves(codec, f"code: {name}", found, "every tensor that is sent")
        if (found.shape, found.dtype, found.device) != (like.shape, like.dtype, like.device):
            said = f"{tuple(found.shape)} {found.dtype} on {found.device}"
            wanted = f"{tuple(like.shape)} {like.dtype} on {like.device}"
            raise misbehaves(codec, f"code: {name}", said, wanted)
        finite = like.isfinite()
        mended = found.isfinite() & ~finite
        if bool(mended.any()):
            asked = "NaN and infinite values that do not become finite"
            raise misbehaves(codec, f"code: {name}", found[mended][0], asked)
        made_up = (like == 0) & (found != 0)
        if part and bool(finite.all()) and bool(made_up.any()):
            asked = "0 for an exact zero, which the algorithm may have masked"
            raise misbehaves(codec, f"code: {name}", found[made_up][0], asked)
