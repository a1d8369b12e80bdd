"""The forward pass of many models of one architecture at once, each on its own rows.

The module is traced with `torch.fx`; every layer with weights is replaced by a form whose weights
carry a leading job axis. Between layers an activation keeps jobs and rows folded into one leading
axis (jobs * rows, ...), so that everything without weights runs as it stands in the module.

What one job's rows become must not depend, to the last bit, on the other jobs: a layer is taken
only where its kernel keeps jobs apart and computes each in an order fixed by the job's own shape.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.func import functional_call

from simfl.learning.kernels.dense import dense_chain
from simfl.learning.kernels.stacked_convolution import Convolution
from simfl.learning.kernels.stacked_layers import Layer, Pass, batch_norm, curved, linear, plain
from simfl.learning.parameters import Parameters

# Exact in every element (one rounding, or none), or computed row by row.
PLAIN_MODULES = (
    nn.Identity,
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.Hardtanh,
    nn.Flatten,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
)
PLAIN_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    operator.add: operator.add,
    operator.iadd: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.getitem: operator.getitem,
    getattr: getattr,
    torch.add: operator.add,
    torch.flatten: torch.flatten,
    torch.relu: torch.relu,
    F.relu: F.relu,
    F.relu6: F.relu6,
    F.leaky_relu: F.leaky_relu,
    F.max_pool2d: F.max_pool2d,
    torch.max_pool2d: torch.max_pool2d,
    F.avg_pool2d: F.avg_pool2d,
    F.adaptive_avg_pool2d: F.adaptive_avg_pool2d,
}
PLAIN_METHODS = frozenset({"view", "reshape", "flatten", "size", "relu", "contiguous", "mean"})

# Several roundings, or a transcendental function: see VECTOR.
CURVED_MODULES = (nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Tanh, nn.SELU)
CURVED_FUNCTIONS = (torch.tanh, torch.sigmoid, F.elu, F.gelu, F.silu, F.selu, F.softplus)
CURVED_METHODS = frozenset({"tanh", "sigmoid"})


class NotStackable(ValueError):
    """A module that cannot be traced, or has a layer without a batched form."""


class StackedForward:
    """The forward pass of stacked models, in training mode and in evaluation.

    `one_by_one` says that some layer computes one job after the other, so that nothing is gained
    by stacking. `needs_company` says that a stack of one goes to other kernels than a stack of
    several, so that a lone job must be computed twice, side by side, to get the bits it gets in
    company. `convolves` says that some layer is a convolution. `dense` is the hand-written form of
    a multi-layer perceptron, None for other modules.

    Raises NotStackable where the module has no batched form, or where its batched form does not
    reproduce the module on random rows (a module that lets rows of a batch meet, or whose own code
    does something else in evaluation).
    """

    def __init__(self, module: nn.Module, input_shape: tuple[int, ...]) -> None:
        was_training = module.training
        module.train()
        try:
            self._graph = fx.symbolic_trace(module).graph
        except Exception as error:  # tracing runs the user's code, which may raise anything
            raise NotStackable(f"cannot be traced: {error}") from error
        finally:
            module.train(was_training)
        modules = dict(module.named_modules())
        self._heard: tuple[str, list[Tensor]] | None = None
        self._layers = {node: _layer(node, modules) for node in self._graph.nodes}
        self.dense = dense_chain(_chain(self._graph, modules))
        _verify(self, module, input_shape)
        forms = {
            form
            for layer in self._layers.values()
            if isinstance(layer, Convolution)
            for form in layer.forms
        }
        self.convolves = bool(forms)
        self.one_by_one = "alone" in forms
        together = "groups" in forms or any(map(_makes_vectors, modules.values()))
        self.needs_company = together and not self.one_by_one

    def __call__(
        self, tensors: Parameters, inputs: Tensor, valid: Tensor
    ) -> tuple[Tensor, Parameters]:
        """Outputs (jobs, rows, outputs), and the running statistics after the pass.

        tensors: parameters and buffers, each (jobs, ...); inputs: (jobs, rows, ...); valid:
        (jobs, rows), 1 for an example and 0 for padding, which batch statistics leave out.
        """
        current = Pass(tensors, valid)
        return self._run(current, inputs), current.moved

    def evaluated(self, tensors: Parameters, inputs: Tensor) -> Tensor:
        """Outputs (models, rows, outputs) in evaluation mode, where running statistics count."""
        valid = torch.ones(inputs.shape[:2], dtype=inputs.dtype, device=inputs.device)
        return self._run(Pass(tensors, valid, training=False), inputs)

    @contextmanager
    def listening(self, layer: str) -> Iterator[list[Tensor]]:
        """What enters a module in every pass meanwhile, each (jobs, rows, ...).

        Raises ValueError unless a pass calls the module, and once.
        """
        if [node.target for node in self._layers if node.op == "call_module"].count(layer) != 1:
            raise ValueError(f"the model calls {layer!r} not once in a pass")
        heard: list[Tensor] = []
        self._heard = layer, heard
        try:
            yield heard
        finally:
            self._heard = None

    def _run(self, current: Pass, inputs: Tensor) -> Tensor:
        values: dict[fx.Node, Any] = {}
        for node, layer in self._layers.items():
            if node.op == "placeholder":
                values[node] = inputs.flatten(0, 1)
            elif node.op == "output":
                folded: Tensor = fx.node.map_arg(node.args[0], values.__getitem__)
                return folded.view(*inputs.shape[:2], *folded.shape[1:])
            else:
                arguments = fx.node.map_arg(node.args, values.__getitem__)
                settings = fx.node.map_arg(node.kwargs, values.__getitem__)
                if self._heard is not None and node.target == self._heard[0]:
                    entering = arguments[0]
                    self._heard[1].append(entering.view(*inputs.shape[:2], *entering.shape[1:]))
                values[node] = layer(current, *arguments, **settings)
        raise AssertionError("a traced graph ends with its output")


def _chain(graph: fx.Graph, modules: dict[str, nn.Module]) -> list[tuple[str, nn.Module]]:
    """The modules of a graph that calls one after the other and nothing else; else none."""
    first, *middle, last = graph.nodes
    names = [str(node.target) for node in middle]
    links = zip([first, *middle], [*middle, last], strict=True)
    straight = all(after.all_input_nodes == [before] for before, after in links)
    if not straight or len(set(names)) < len(names):
        return []
    if any(node.op != "call_module" for node in middle):
        return []
    return [(name, modules[name]) for name in names]


def _layer(node: fx.Node, modules: dict[str, nn.Module]) -> Layer:
    """What to compute at one node of the graph."""
    if node.op == "call_module":
        return _module_layer(str(node.target), modules[str(node.target)])
    if node.op == "call_function":
        if node.target in PLAIN_FUNCTIONS:
            return plain(PLAIN_FUNCTIONS[node.target])
        if node.target in CURVED_FUNCTIONS:
            return curved(node.target)
    if node.op == "call_method":
        if node.target in PLAIN_METHODS:
            return plain(getattr(Tensor, str(node.target)))
        if node.target in CURVED_METHODS:
            return curved(getattr(Tensor, str(node.target)))
    if node.op in ("placeholder", "output"):
        return plain(lambda value: value)
    raise NotStackable(f"{node.op} {node.target} has no batched form")


def _makes_vectors(module: nn.Module) -> bool:
    """Whether a layer is a product with a vector, which has another kernel for a single job."""
    return isinstance(module, nn.Linear) and 1 in (module.in_features, module.out_features)


def _ordinary(module: nn.Conv2d) -> bool:
    """Whether a convolution can be one group of a grouped one."""
    return module.padding_mode == "zeros" and module.groups == 1


def _module_layer(prefix: str, module: nn.Module) -> Layer:
    if isinstance(module, nn.Linear):
        return linear(prefix, module)
    if isinstance(module, nn.Conv2d) and _ordinary(module):
        return Convolution(prefix, module)
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        return batch_norm(prefix, module)
    if isinstance(module, nn.Dropout | nn.Dropout2d) and module.p == 0:
        return plain(lambda activation: activation)
    if type(module) in PLAIN_MODULES:
        return plain(_out_of_place(module))
    if type(module) in CURVED_MODULES:
        return curved(_out_of_place(module))
    raise NotStackable(f"{prefix} ({type(module).__name__}) has no batched form")


def _out_of_place(module: nn.Module) -> nn.Module:
    """The module without `inplace`, which would overwrite what the backward pass still needs."""
    if getattr(module, "inplace", False):
        module = copy.copy(module)
        module.inplace = False  # type: ignore[assignment]
    return module


def _verify(stacked: StackedForward, module: nn.Module, input_shape: tuple[int, ...]) -> None:
    """Compare the batched form with the module on two jobs of four and three random rows."""
    generator = torch.Generator().manual_seed(0)
    state = module.state_dict()
    held: Parameters = dict(module.named_parameters())
    held.update((name, buffer) for name, buffer in module.named_buffers() if name in state)
    device = next((tensor.device for tensor in held.values()), torch.device("cpu"))

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device)

    tensors = {
        name: torch.stack([tensor.detach(), tensor.detach()])
        + (0.1 * noise(2, *tensor.shape).abs() if tensor.is_floating_point() else 0)
        for name, tensor in held.items()
    }
    inputs, rows = noise(2, 4, *input_shape), (4, 3)
    valid = torch.ones(2, 4, dtype=torch.float64, device=device)
    valid[1, 3] = 0
    was_training = module.training
    try:
        for training in (True, False):
            module.train(training)
            if training:
                outputs, _ = stacked(tensors, inputs, valid)
            else:
                outputs = stacked.evaluated(tensors, inputs)
            for job, count in enumerate(rows):
                alone = {name: tensor[job].clone() for name, tensor in tensors.items()}
                expected = functional_call(module, alone, (inputs[job, :count],))
                found = outputs[job, :count]
                # not torch.testing, which takes most of a second to import what this needs not
                if not torch.allclose(found, expected, rtol=1e-6, atol=1e-6):
                    raise ValueError(f"by up to {(found - expected).abs().max():.3g}")
    except Exception as error:  # whatever goes wrong, the loop over jobs is right
        raise NotStackable(f"the batched form differs from the module: {error}") from error
    finally:
        module.train(was_training)
