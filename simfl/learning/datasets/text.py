"""Your own text files, for next-token prediction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch

from simfl.common.files import DataPath
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.sound import MAXIMUM_CLASSES
from simfl.learning.datasets.table import located

WORD = re.compile(r"\w+|[^\w\s]")
"""A word or a punctuation mark, but no blanks."""

MOST_BYTES = 4 * 2**30
"""Larger inputs (in bytes) are refused, because they are temporarily in memory twice."""


@dataclass(frozen=True)
class Text(Dataset):
    """Text files: every example is `length` tokens, and its class is the next token.

    Tokens are characters, or words and punctuation marks. The most frequent ones of the training
    text are 1 to `vocabulary` - 1 in order of frequency, all others are token 0: set the model's
    `tokens` to `vocabulary`. The last part of every owner's text is for testing, except examples
    whose next token is not trained by any owner. Owners, for the partition natural, are the files,
    or the speakers of each file; owners with at most `length` tokens to train on are left out.
    """

    path: Annotated[
        DataPath,
        "a file, or a folder of .txt files; relative paths are searched beside the scenario, then"
        " below the data root",
    ]
    unit: Annotated[Literal["character", "word"], "what a token is"] = "character"
    length: Annotated[int, ">= 1", "tokens per example"] = 80
    vocabulary: Annotated[
        int, ">= 2", f"<= {MAXIMUM_CLASSES}", "number of different tokens, including 0"
    ] = 96
    step: Annotated[int, ">= 1", "tokens between the beginnings of two examples"] = 1
    speaker: Annotated[
        str | None,
        "regular expression for the beginning of a line with a new speaker, whose first group is"
        ' the name, such as "([A-Z ]+): "; the match is removed, as is text before the first'
        " speaker; null: files are the owners",
    ] = None
    test_share: Annotated[
        float, "> 0", "< 1", "share of every owner's text, at its end, for testing"
    ] = 0.2

    def load(self, root: Path | None, seed: int) -> Data:
        """Reads the files; raises ValueError if they are too short, or not text."""
        owners = list(self._owners(located(root, self.path, "path")))
        train, test = [], []
        for tokens in owners:
            kept = len(tokens) - round(self.test_share * len(tokens))
            train.append(tokens[:kept])
            test.append(tokens[kept:])
        counted = Counter(token for tokens in train for token in tokens)
        frequent = sorted(counted, key=lambda token: (-counted[token], token))
        number = {token: place + 1 for place, token in enumerate(frequent[: self.vocabulary - 1])}
        windows = {
            part: [self._windows(tokens, number) for tokens in texts]
            for part, texts in (("training", train), ("test", test))
        }
        sizes = {part: sum(map(len, found)) for part, found in windows.items()}
        for part, rows in sizes.items():
            if not rows:
                longest = max(map(len, train if part == "training" else test), default=0)
                raise ValueError(
                    f"length: found {self.length}, accepted: less than the {longest:,} tokens that"
                    f" the longest {part} text of an owner has"
                )
        needed = sum(sizes.values()) * self.length * (1 if self.vocabulary <= 256 else 4)
        if needed > MOST_BYTES:
            raise ValueError(
                f"step: found {self.step}, which makes {sum(sizes.values()):,} examples of"
                f" {needed / 2**30:.1f} GiB together; accepted: a larger step"
            )
        # Owners that are left out have no rows and no number.
        counts = [len(one) for one in windows["training"] if len(one)]
        natural = np.repeat(np.arange(len(counts)), counts)
        learnt, tested = map(self._examples, windows.values())
        known = np.isin(tested.targets.numpy(), learnt.targets.numpy())
        tested = tested.take(np.flatnonzero(known))
        return Data(learnt, tested, "classification", self.vocabulary, natural)

    def _owners(self, path: Path) -> Iterator[Sequence[str]]:
        """The tokens of every owner, in the files' order."""
        files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"path: no .txt file in {path}")
        for file in files:
            try:
                text = file.read_text("utf-8-sig")
            except UnicodeDecodeError as error:
                place = f"a byte at offset {error.start}"
                raise ValueError(f"path: {file} is not text in UTF-8: {place}") from error
            for one in [text] if self.speaker is None else self._speeches(text, file):
                yield one if self.unit == "character" else WORD.findall(one)

    def _speeches(self, text: str, file: Path) -> list[str]:
        """What each speaker of a file says altogether, in order of their names."""
        try:
            begins = re.compile(f"^(?:{self.speaker})", re.MULTILINE)
        except re.error as error:
            raise ValueError(
                f"speaker: found {self.speaker!r}, which is not a regular expression: {error}"
            ) from error
        found = list(begins.finditer(text))
        if not found or begins.groups == 0 or not all(one.end() > one.start() for one in found):
            why = "has no group" if found and begins.groups == 0 else "begins no line"
            raise ValueError(
                f"speaker: found {self.speaker!r}, which {why} (of {file}); accepted: like '([A-Z"
                " ]+): ', with the name in the first group"
            )
        said: dict[str, list[str]] = {}
        ends = [*(one.start() for one in found[1:]), len(text)]
        for one, end in zip(found, ends, strict=True):
            said.setdefault(one[1] or "", []).append(text[one.end() : end])
        return ["".join(said[name]) for name in sorted(said)]

    def _windows(self, tokens: Sequence[str], number: dict[str, int]) -> np.ndarray:
        """Every `length` tokens and the next one, as numbers: a view, (rows, length + 1)."""
        numbers = np.array([number.get(token, 0) for token in tokens], dtype=np.int32)
        if len(numbers) <= self.length:
            return np.zeros((0, self.length + 1), dtype=np.int32)
        windows = np.lib.stride_tricks.sliding_window_view(numbers, self.length + 1)
        return windows[:: self.step]

    def _examples(self, windows: Sequence[np.ndarray]) -> Examples:
        kind = np.uint8 if self.vocabulary <= 256 else np.float32
        inputs = np.concatenate([one[:, :-1].astype(kind) for one in windows])
        targets = np.concatenate([one[:, -1] for one in windows]).astype(np.int64)
        return Examples(torch.from_numpy(inputs), torch.from_numpy(targets))
