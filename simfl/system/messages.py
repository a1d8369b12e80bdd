"""Messages: a link's transfer, the radio waking up before it, and every attempt that was lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.system.cost import TransferCost, WireTransfer
from simfl.system.costs_of import channel_of, transfer_cost_of
from simfl.system.grouping import by_value
from simfl.system.link import Link
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.radio_paths import RadioPaths


def transmit_all(
    links: Sequence[Link],
    link_index: IntArray,
    paths: RadioPaths,
    wire_bytes: IntArray | FloatArray,
    rate_factor: FloatArray,
    jitter: FloatArray,
) -> TransferCost:
    """One attempt of each message of a cohort with its radio awake, over its own link of `links`.

    Columns have one entry per message; `rate_factor` multiplies what the channel leaves.
    """
    duration_s, active_j, network_j = np.empty((3, len(link_index)))
    for index, rows in by_value(link_index):
        link, factor = links[index], rate_factor[rows]
        if link.needs_places:
            factor = factor * channel_of(link, paths.of(rows))
        cost = transfer_cost_of(link, 8.0 * wire_bytes[rows], paths.uplink, factor, jitter[rows])
        duration_s[rows], active_j[rows] = cost.duration_s, cost.active_j
        network_j[rows] = cost.network_j
    return TransferCost(duration_s, active_j, network_j)


def send(
    once: TransferCost,
    wire_bytes: IntArray,
    links: LinkColumns,
    since_s: ArrayLike,
    loss: MessageLoss | None,
    uniform: ArrayLike,
) -> WireTransfer:
    """What messages cost until they arrive, or until the sender gives up; columns broadcast.

    `once` is what one attempt costs a radio that is awake, `since_s` the seconds since each radio's
    last message. Without `loss` nothing is lost; with it, `uniform` is one draw per message. Every
    attempt costs the time, energy and bytes of the whole message, at the same rate (block fading:
    the channel stays as it is); between attempts, and while a sender that gives up waits in vain,
    the radio is in its tail and, after that, asleep. What tail follows a message is not part of it.
    """
    sent = wire_bytes > 0
    wake_s, wake_j = links.wake(since_s)
    promotion_j, tail_j = sent * wake_j, np.zeros_like(once.active_j)
    duration_s = sent * wake_s + once.duration_s
    attempts, failed = sent.astype(np.int64), np.zeros_like(sent)
    silent_s: FloatArray = np.zeros_like(duration_s)
    if loss is not None:
        attempts, failed = loss.attempts(links.loss_probability, uniform)
        attempts, failed = attempts * sent, failed & sent
        for attempt in range(1, loss.attempts_max):
            again, wait_s = attempts > attempt, loss.wait_s(attempt)
            wake_s, wake_j = links.wake(wait_s)
            duration_s = duration_s + again * (wait_s + wake_s + once.duration_s)
            promotion_j = promotion_j + again * wake_j
            tail_j = tail_j + again * links.tail_j(wait_s)
        silent_s = np.where(failed, loss.wait_s(loss.attempts_max), 0.0)
        duration_s = duration_s + silent_s
        tail_j = tail_j + failed * links.tail_j(loss.wait_s(loss.attempts_max))
    return WireTransfer(
        duration_s,
        attempts * once.active_j + promotion_j + tail_j,
        attempts * once.network_j,
        wire_bytes,
        attempts,
        (attempts - (sent & ~failed)) * wire_bytes,
        failed,
        promotion_j,
        silent_s,
    )
