"""Output of `simfl partition`: the data of each client, with a bar of labels."""

from __future__ import annotations

import string

import numpy as np
from rich.table import Table

from simfl.common.arrays import IntArray
from simfl.console.terminal import Terminal

SIGNS = string.digits + string.ascii_lowercase
"""Characters that represent labels; with more labels, neighbours share a character."""

MOST_CLIENTS = 100
"""More rows would not be read; a picture has them all."""

MOST_NAMED = 10
"""If more labels are missing everywhere, they are only counted."""

WIDEST_BAR = 60
BESIDE_BAR = 38
"""Columns of a terminal: for the longest bar, and for the text beside it."""


def print_partition(title: str, examples: IntArray, label_counts: IntArray) -> None:
    """One row per client: examples (clients,), labels, and a bar proportional to its examples.

    `label_counts`: (clients, labels), without columns if there are no labels.
    """
    console, labels = Terminal(), label_counts.shape[1]
    console.print(title)
    for line in summary(examples, label_counts):
        console.print(line)
    width = max(min(console.width - BESIDE_BAR, WIDEST_BAR), 10)
    per_sign = max(int(examples.max()) / width, 1.0)
    table = Table()
    for head in ("client", "examples", *(["labels"] if labels else [])):
        table.add_column(head, justify="right")
    table.add_column("by label" if labels else "", no_wrap=True)  # a regression has none
    for client in range(min(len(examples), MOST_CLIENTS)):
        row = [str(client), f"{examples[client]:,}"]
        if labels:
            row.append(str((label_counts[client] > 0).sum()))
        own = round(examples[client] / per_sign)
        table.add_row(*row, bar(label_counts[client], per_sign) if labels else "=" * own)
    console.print(table)
    left_out = len(examples) - MOST_CLIENTS
    if left_out > 0:
        console.print(f"and {left_out:,} more clients, which a picture shows (-o FILE)")
    if labels:
        shared = -(-labels // len(SIGNS))
        what = "its label" if shared == 1 else f"one of {shared} neighbouring labels"
        many = f"about {per_sign:.3g} examples" if per_sign > 1 else "one example"
        console.print(f"a sign stands for {many} of {what}")


def summary(examples: IntArray, label_counts: IntArray) -> list[str]:
    """How many examples and clients there are, and how different clients' labels are, a line
    each.
    """
    clients, labels = label_counts.shape
    sizes = f"{examples.min():,} to {examples.max():,} each"
    found = [f"{examples.sum():,} examples at {clients:,} clients, {sizes}"]
    if labels:
        own = (label_counts > 0).sum(axis=1).mean()
        largest = (label_counts.max(axis=1) / examples).mean()
        overall = label_counts.sum(axis=0).max() / examples.sum()
        found.append(
            f"mean of the clients: {own:.3g} of {labels} labels; the largest label is"
            f" {largest:.0%} of the examples ({overall:.0%} in all data)"
        )
        nobodys = np.flatnonzero(label_counts.sum(axis=0) == 0).tolist()
        if nobodys:
            few = ", ".join(map(str, nobodys[:MOST_NAMED]))
            more = f" and {len(nobodys) - MOST_NAMED:,} more" if len(nobodys) > MOST_NAMED else ""
            found.append(f"no client has an example of the labels {few}{more}")
    return found


def bar(counts: IntArray, per_sign: float) -> str:
    """A character of its label for every `per_sign` examples; rounding errors do not accumulate."""
    ends = (counts.cumsum() / per_sign).round().astype(int).tolist()
    labels = max(len(counts), len(SIGNS))
    signs = [SIGNS[label * len(SIGNS) // labels] for label in range(len(counts))]
    begins = [0, *ends[:-1]]
    return "".join(
        sign * (end - begin) for sign, begin, end in zip(signs, begins, ends, strict=True)
    )
