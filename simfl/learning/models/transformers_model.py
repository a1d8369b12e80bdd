"""Any classifier or language model of Hugging Face's transformers, from a local folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal

from torch import Tensor, nn

from simfl.common.files import TracePath, digest_of
from simfl.learning.models.base import Model
from simfl.learning.vision import torchvision

WEIGHTS = (".safetensors", ".bin")
CONFIGURATION = "config.json"


class Logits(nn.Module):
    """The output of a transformers model as a single tensor, as simfl's trainers need it."""

    def __init__(self, model: nn.Module, *, images: bool, last: bool) -> None:
        super().__init__()
        self.model = model
        self.images = images
        self.last = last

    def forward(self, inputs: Tensor) -> Tensor:
        """Images (rows, channels, height, width) or tokens (rows, length) to (rows, outputs)."""
        if self.images:
            given = self.model(pixel_values=inputs)
        else:
            given = self.model(input_ids=inputs.long())
        found: Tensor = given.logits
        return found[:, -1] if self.last else found


@dataclass(frozen=True)
class TransformersModel(Model):
    """A model of Hugging Face's transformers, as a folder's `config.json` describes it.

    Nothing is downloaded; needs the package transformers (`pip install 'simfl[huggingface]'`).
    Images go to the configuration's image classifier, tokens (whole numbers) to its sequence
    classifier, or, with `head: next_token`, to its causal language model, whose classes are the
    vocabulary. Its jobs are trained one by one, not batched.
    """

    name: ClassVar[str] = "transformers"

    path: Annotated[
        TracePath,
        "the folder; relative paths are searched beside the scenario, then below the data root",
    ]
    weights: Annotated[
        Literal["random", "local"],
        "initial weights; local: the folder's, except a head that does not fit",
    ] = "random"
    head: Annotated[
        Literal["classification", "next_token"],
        "the outputs: classes, or the vocabulary (next token)",
    ] = "classification"

    @property
    def tokens(self) -> int | None:
        """The number of different tokens; None if the configuration has no vocabulary."""
        return getattr(self._configuration(), "vocab_size", None)

    def content(self) -> str:
        """A digest of the files that it is made from."""
        files = [self.path / CONFIGURATION]
        if self.weights == "local":
            found = sorted(self.path.iterdir())
            files += [file for file in found if file.suffix in WEIGHTS]
        return hashlib.sha256("".join(map(digest_of, files)).encode()).hexdigest()

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Raises ValueError if the configuration has no such head, or other outputs."""
        images = len(input_shape) == 3
        if not images and len(input_shape) != 1:
            raise ValueError(
                f"model {self.name} takes images (channels, height, width) or tokens (length),"
                f" found examples of shape {input_shape}"
            )
        configuration, library = self._configuration(), _library()
        last = self.head == "next_token"
        if last:
            kind = library.AutoModelForCausalLM
            own = getattr(configuration, "vocab_size", None)
            if images or own != outputs:
                raise ValueError(
                    f"head: next_token has the {own} tokens of {CONFIGURATION}, the data have"
                    f" {outputs} classes; accepted: the same number, and data of tokens"
                )
            configuration.use_cache = False
        else:
            kind = library.AutoModelForSequenceClassification
            if images:
                kind = library.AutoModelForImageClassification
            configuration.num_labels = outputs
        # Of other forms of attention torch does not know how much work they are.
        settings: dict[str, Any] = {"attn_implementation": "eager"}
        if self.weights == "random":
            model = kind.from_config(configuration, **settings)
        else:
            model = kind.from_pretrained(
                str(self.path),
                config=configuration,
                local_files_only=True,
                ignore_mismatched_sizes=True,
                **settings,
            )
        return Logits(model.float(), images=images, last=last)

    def _configuration(self) -> Any:
        if not (self.path / CONFIGURATION).is_file():
            raise ValueError(f"path: no {CONFIGURATION} in {self.path}")
        return _library().AutoConfig.from_pretrained(str(self.path), local_files_only=True)


def _library() -> Any:
    """The package transformers; raises ValueError where it is not installed."""
    if find_spec("transformers") is None:
        raise ValueError(
            "needs the package transformers, which is not installed: pip install"
            " 'simfl[huggingface]'"
        )
    torchvision()  # before transformers imports it, which may not know how
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers
