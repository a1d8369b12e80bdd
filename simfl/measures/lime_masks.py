"""LIME masks: which parts of an image a model uses, and their share on the drawn object."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.learning.federation import Federation
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters
from simfl.learning.responses import class_probabilities
from simfl.measures.base import ModelMeasure
from simfl.runs.runfolder import LoadedRun

SHOWN = 3
"""Channels of the images that LIME segments; missing ones are zero."""


@dataclass(frozen=True)
class LimeMasks(ModelMeasure):
    """The share of LIME's weight on the drawn object, over some test images.

    Ribeiro, Singh, Guestrin, "Why Should I Trust You?", KDD 2016, arXiv 1602.04938: images are cut
    into segments (SLIC), and a linear model in the kept segments explains the predicted class.
    Needs the package lime (`pip install 'simfl[lime]'`), and images of one to three channels whose
    background is dark.
    """

    images: Annotated[int, ">= 1", "test images, drawn at random"] = 10
    samples: Annotated[int, ">= 10", "perturbed copies of each image"] = 1000
    segments: Annotated[int, ">= 2", "number of segments for SLIC"] = 50
    kernel_width: Annotated[float, "> 0", "kernel width of LIME's distance"] = 0.25

    def __post_init__(self) -> None:
        """Raises ValueError without the package: before the run, not after it."""
        if find_spec("lime") is None:
            raise ValueError(
                "needs the package lime, which is not installed: pip install 'simfl[lime]'"
            )

    def assess(
        self, run: LoadedRun, federation: Federation, rng: np.random.Generator
    ) -> dict[str, float]:
        """on_stroke, the mean share of |weight| on the stroke's segments, and stroke_share.

        stroke_share is the share of segments that the stroke crosses: the value of an indifferent
        explanation. Empty if inputs are not such images.
        """
        images = [image for part in federation.tests for image in part.inputs]
        if not images or images[0].ndim != 3 or images[0].shape[0] > SHOWN:
            return {}
        chosen = np.sort(rng.choice(len(images), min(self.images, len(images)), replace=False))
        explained = [
            self.explain(
                federation.network, federation.weights, images[row].double().cpu().numpy(), rng
            )
            for row in chosen
        ]
        indifferent = [(np.ones_like(one), places, stroke) for one, places, stroke in explained]
        return {
            "on_stroke": float(np.mean([share_on(*one) for one in explained])),
            "stroke_share": float(np.mean([share_on(*one) for one in indifferent])),
        }

    def explain(
        self,
        network: Network,
        weights: Parameters,
        image: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[FloatArray, IntArray, BoolArray]:
        """Weight of each segment for the predicted class, segments (height, width), and the stroke.

        `image` is (channels, height, width); an ensemble predicts the class of its mean outputs.
        """
        from lime import lime_image
        from lime.wrappers import scikit_image

        pixels, channels = image.transpose(1, 2, 0), image.shape[0]
        shown = np.concatenate([pixels, np.zeros((*pixels.shape[:2], SHOWN - channels))], axis=2)
        explainer = lime_image.LimeImageExplainer(
            kernel_width=self.kernel_width, random_state=int(rng.integers(2**31))
        )
        slic = scikit_image.SegmentationAlgorithm("slic", n_segments=self.segments, start_label=0)

        def classify(copies: FloatArray) -> FloatArray:
            inputs = np.moveaxis(copies[..., :channels], 3, 1)
            return class_probabilities(network, weights, inputs)

        explanation = explainer.explain_instance(
            shown,
            classify,
            top_labels=1,
            hide_color=0,
            num_samples=self.samples,
            segmentation_fn=slic,
        )
        segments: IntArray = explanation.segments
        found = dict(explanation.local_exp[explanation.top_labels[0]])
        by_segment = np.array([found.get(number, 0.0) for number in range(segments.max() + 1)])
        return by_segment, segments, pixels.max(axis=2) > 0


def share_on(weights: FloatArray, segments: IntArray, stroke: BoolArray) -> float:
    """The share of the absolute weight on segments that the stroke crosses; NaN without weight."""
    size = np.abs(weights)
    crossed = np.isin(np.arange(size.size), segments[stroke])
    return float(size[crossed].sum() / size.sum()) if size.any() else float("nan")
