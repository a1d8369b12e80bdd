"""The form that trains a run's jobs, and the reason, for manifests and reports."""

from __future__ import annotations

from simfl.learning.kernels.numpy_product import openblas
from simfl.learning.kernels.stacked_convolution import WHY
from simfl.learning.minibatch import plain_loss
from simfl.learning.network import Network
from simfl.learning.trainer import Loss

Row = dict[str, str]
"""`what` is computed, in which `form`, and `why`."""


def trained_by(network: Network, loss: Loss, trainer: str) -> list[Row]:
    """How jobs are computed by this trainer: together or not, gradients, products, convolutions."""
    rows = [_jobs(network, trainer)]
    stacked = network.stacked if trainer == "batched" else None
    whole = network.trainable_names.issuperset(network.parameter_names)
    if stacked is not None and stacked.dense is not None and loss is plain_loss and whole:
        why = "Linear layers with ReLU at most between, the plain loss, and all of it trained"
        rows.append(_row("gradients", "by hand", why))
    elif stacked is not None and stacked.dense is not None:
        why = "Linear layers with ReLU at most between, under a loss of its own, or in part fixed"
        rows.append(_row("gradients", "autograd, passes by hand", why))
    else:
        rows.append(_row("gradients", "autograd", "right for any model and loss"))
    if stacked is not None:
        if network.device.type == "cpu" and (library := openblas()):
            why = "faster on this processor than torch's own library"
            rows.append(_row("products", library, why))
        else:
            rows.append(_row("products", "torch", "no faster library on this processor"))
        rows += [
            _row(f"convolution {layer.name}", form, WHY[form])
            for layer in stacked.convolutions
            for form in sorted(layer.forms)
        ]
    return rows


def _jobs(network: Network, trainer: str) -> Row:
    if trainer != "batched":
        return _row("jobs", "loop", f"the trainer {trainer} was asked for")
    if network.not_stacked_because is not None:
        return _row("jobs", "loop", network.not_stacked_because)
    if network.kernel_family == "one_by_one":
        why = "on a CPU, convolutions of images of this size gain nothing from batching"
        return _row("jobs", "one_by_one", why)
    return _row("jobs", "stacked", "every layer has a batched form, bit-equal in any batch")


def _row(what: str, form: str, why: str) -> Row:
    return {"what": what, "form": form, "why": why}
