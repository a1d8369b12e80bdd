"""The forward pass of many models of one architecture at once, each on its own rows.

The module is traced with `torch.fx`; every layer with weights is replaced by a form whose weights
have a leading job axis. Between layers, an activation keeps jobs and rows folded into one leading
axis (jobs * rows, ...), so that everything without weights runs as it does in the module.

The results of a job's rows must not depend on the other jobs, not even in the last bit. So only
layers are accepted whose kernel treats jobs separately and computes each in an order that only
depends on the job's own shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from simfl.learning.kernels.dense import dense_chain
from simfl.learning.kernels.stacked_convolution import Convolution
from simfl.learning.kernels.stacked_graph import (
    NotStackable,
    draws_by_function,
    layers_of,
    multiplies_elsewhere,
)
from simfl.learning.kernels.stacked_layers import Pass
from simfl.learning.kernels.streams import Streams
from simfl.learning.parameters import Parameters


class StackedForward:
    """The forward pass of stacked models, in training mode and in evaluation.

    - `one_by_one`: some layer computes the jobs one after another, so stacking gains nothing.
    - `single_differs`: a stack of one uses other kernels than a stack of several, so a single job
      must be computed twice, side by side, to get the same bits as among others.
    - `calls`: the number of layers and functions that a pass calls.
    - `convolutions`: the layers that convolve, each with its forms; `convolves`: whether there are
      any.
    - `draws`: some layer draws random numbers in training.
    - `only_layers`: all products are those of Linear and Conv2d layers.
    - `dense`: the hand-written form of a multi-layer perceptron, None for other modules.

    Raises NotStackable, with all obstacles, if the module has no batched form, or if its batched
    form does not reproduce the module on random rows (because rows of a batch interact, or its own
    code behaves differently in evaluation), or if its bits depend on the other jobs.
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
        self._layers = layers_of(self._graph, module)
        self.calls = sum(node.op.startswith("call_") for node in self._layers)
        self.draws = any(map(_draws, modules.values())) or draws_by_function(self._graph)
        self.only_layers = not multiplies_elsewhere(self._graph, modules)
        self._first = next(iter(self._graph.nodes))
        self.dense = dense_chain(_chain(self._graph, modules))
        # Recorded before the module runs: torch may drop them for a layer that is called twice.
        learns = [name for name, one in module.named_parameters() if one.requires_grad]
        _verify(self, module, input_shape)
        self.convolutions = [one for one in self._layers.values() if isinstance(one, Convolution)]
        forms = {form for layer in self.convolutions for form in layer.forms}
        self.convolves = bool(forms)
        self.one_by_one = "alone" in forms
        vectors = any(map(_makes_vectors, modules.values()))
        self.single_differs = vectors and not self.one_by_one
        on_cpu = all(one.device.type == "cpu" for one in module.parameters())
        if on_cpu and self.dense is None and not self.one_by_one:
            _verify_bits(self, module, input_shape, learns)

    def __call__(
        self,
        tensors: Parameters,
        inputs: Tensor,
        valid: Tensor,
        streams: Streams | None = None,
    ) -> tuple[Tensor, Parameters]:
        """Outputs (jobs, rows, outputs), and the running statistics after the pass.

        tensors: parameters and buffers, each (jobs, ...); inputs: (jobs, rows, ...); valid: (jobs,
        rows), 1 for an example and 0 for padding, which batch statistics leave out; streams: the
        jobs' random generators, needed if some layer `draws`.
        """
        current = Pass(tensors, valid, streams=streams)
        return self._run(current, inputs, {}), current.moved

    def each(self, models: Iterable[Parameters], inputs: Tensor, valid: Tensor) -> Iterator[Tensor]:
        """Outputs (jobs, rows, outputs) of several stacks of models, in training mode.

        Nodes that use the same inputs and tensors as in the first stack are computed once. Not for
        models that draw random numbers or update running statistics.
        """
        first: Parameters = {}
        common: dict[fx.Node, Any] = {}
        for tensors in models:
            values: dict[fx.Node, Any] = {}
            if first:
                same = {name for name, one in tensors.items() if first.get(name) is one}
                values = {node: common[node] for node in self._made_of(same, tensors)}
            yield self._run(Pass(tensors, valid), inputs, values)
            if not first:
                first, common = tensors, values

    def _made_of(self, names: Collection[str], tensors: Parameters) -> Iterator[fx.Node]:
        """The nodes that depend only on the inputs and, among a model's tensors, on these."""
        found: set[fx.Node] = set()
        for node in self._layers:
            own = f"{node.target}." if node.op == "call_module" else f"{node.target}"
            read = [name for name in tensors if name.startswith(own)] if _reads(node) else []
            if found.issuperset(node.all_input_nodes) and all(name in names for name in read):
                found.add(node)
                yield node

    def evaluated(self, tensors: Parameters, inputs: Tensor) -> Tensor:
        """Outputs (models, rows, outputs) in evaluation mode, which uses running statistics."""
        valid = torch.ones(inputs.shape[:2], dtype=inputs.dtype, device=inputs.device)
        return self._run(Pass(tensors, valid, training=False), inputs, {})

    @contextmanager
    def listening(self, layer: str) -> Iterator[list[Tensor]]:
        """The inputs of a module in every pass within the block, each (jobs, rows, ...).

        Raises ValueError unless a pass calls the module exactly once.
        """
        if [node.target for node in self._layers if node.op == "call_module"].count(layer) != 1:
            raise ValueError(f"the model calls {layer!r} not once in a pass")
        heard: list[Tensor] = []
        self._heard = layer, heard
        try:
            yield heard
        finally:
            self._heard = None

    def _run(self, current: Pass, inputs: Tensor, values: dict[fx.Node, Any]) -> Tensor:
        """Outputs (jobs, rows, outputs); `values` holds known values, and gets those computed
        here.
        """
        arguments: Any
        settings: Any
        for node, layer in self._layers.items():
            if node in values:
                continue
            if node is self._first:
                values[node] = inputs.flatten(0, 1)
            elif node.op == "output":
                arguments = fx.node.map_arg(node.args, values.__getitem__)
                (folded,) = arguments
                outputs: Tensor = folded.view(*inputs.shape[:2], *folded.shape[1:])
                return outputs
            else:
                arguments = fx.node.map_arg(node.args, values.__getitem__)
                settings = fx.node.map_arg(node.kwargs, values.__getitem__)
                if self._heard is not None and node.target == self._heard[0]:
                    entering = arguments[0]
                    self._heard[1].append(entering.view(*inputs.shape[:2], *entering.shape[1:]))
                values[node] = layer(current, *arguments, **settings)
        raise AssertionError("a traced graph ends with its output")


def _chain(graph: fx.Graph, modules: dict[str, nn.Module]) -> list[tuple[str, nn.Module]]:
    """The modules of a graph that only calls one after another; otherwise empty."""
    first, *middle, last = graph.nodes
    names = [str(node.target) for node in middle]
    links = zip([first, *middle], [*middle, last], strict=True)
    straight = all(after.all_input_nodes == [before] for before, after in links)
    if not straight or len(set(names)) < len(names):
        return []
    if any(node.op != "call_module" for node in middle):
        return []
    return [(name, modules[name]) for name in names]


def _reads(node: fx.Node) -> bool:
    """Whether a node may read a model's tensors itself."""
    return node.op in ("call_module", "get_attr")


def _makes_vectors(module: nn.Module) -> bool:
    """Whether a layer is a product with a vector, which has another kernel for a single job."""
    if isinstance(module, nn.LSTM | nn.GRU):
        return 1 in (module.input_size, module.hidden_size)
    return isinstance(module, nn.Linear) and 1 in (module.in_features, module.out_features)


def _draws(module: nn.Module) -> bool:
    """Whether a module draws random numbers in training."""
    if isinstance(module, nn.MultiheadAttention | nn.LSTM | nn.GRU):
        return bool(module.dropout)
    return isinstance(module, nn.Dropout | nn.Dropout1d | nn.Dropout2d) and module.p > 0


class _Trial:
    """Random models and inputs for a module, to test its batched form."""

    def __init__(self, module: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._generator = torch.Generator().manual_seed(0)
        state = module.state_dict()
        self._held: Parameters = dict(module.named_parameters())
        self._held.update((n, one) for n, one in module.named_buffers() if n in state)
        self.device = next((one.device for one in self._held.values()), torch.device("cpu"))
        self._shape, self._dtype = input_shape, dtype
        tables = [one.num_embeddings for one in module.modules() if isinstance(one, nn.Embedding)]
        self._smallest_table = min(tables, default=0)

    def models(self, jobs: int) -> Parameters:
        """A stack of `jobs` models near the module's own."""
        found = {n: torch.stack([one.detach()] * jobs) for n, one in self._held.items()}
        return {
            name: tensor + 0.1 * self._noise(*tensor.shape).abs()
            if tensor.is_floating_point()
            else tensor
            for name, tensor in found.items()
        }

    def inputs(self, jobs: int, rows: int) -> Tensor:
        """Standard normal inputs; if there are embeddings, whole numbers that all of them
        accept.
        """
        found = self._noise(jobs, rows, *self._shape)
        if self._smallest_table:
            found = found.abs().mul(1000).floor().remainder(self._smallest_table)
        return found

    def streams(self, counts: Sequence[int], rows: int) -> Streams:
        """A generator per job, seeded by its number."""
        own = [torch.Generator(self.device).manual_seed(job) for job in range(len(counts))]
        return Streams(own, counts, rows)

    def _noise(self, *shape: int) -> Tensor:
        drawn = torch.randn(*shape, generator=self._generator, dtype=self._dtype)
        return drawn.to(self.device)


def _verify(stacked: StackedForward, module: nn.Module, input_shape: tuple[int, ...]) -> None:
    """Compare the batched form with the module on two jobs of four and three random rows."""
    trial, rows = _Trial(module, input_shape, torch.float64), (4, 3)
    tensors, inputs = trial.models(2), trial.inputs(2, 4)
    valid = torch.ones(2, 4, dtype=torch.float64, device=trial.device)
    valid[1, 3] = 0
    was_training = module.training
    try:
        for training in (True, False):
            module.train(training)
            if training:
                outputs, _ = stacked(tensors, inputs, valid, trial.streams(rows, 4))
            else:
                outputs = stacked.evaluated(tensors, inputs)
            for job, count in enumerate(rows):
                alone = {name: tensor[job].clone() for name, tensor in tensors.items()}
                torch.manual_seed(job)
                expected = functional_call(module, alone, (inputs[job, :count],))
                found = outputs[job, :count]
                # not torch.testing, which takes most of a second to import
                if not torch.allclose(found, expected, rtol=1e-6, atol=1e-6):
                    raise ValueError(f"by up to {(found - expected).abs().max():.3g}")
    except Exception as error:  # whatever goes wrong, the loop over jobs remains correct
        raise NotStackable(f"the batched form differs from the module: {error}") from error
    finally:
        module.train(was_training)


MANY, FEW = 7, 2
"""Jobs in a stack whose bits are compared with smaller stacks; few for large models."""

LARGE = 1_000_000
"""From this many values on, a model counts as large here."""


def _verify_bits(
    stacked: StackedForward, module: nn.Module, input_shape: tuple[int, ...], learns: Sequence[str]
) -> None:
    """Compare outputs and gradients of stacked jobs with those of the same jobs in smaller stacks.

    A safeguard for what the tables of layers cannot cover: a module's own code between layers.
    """
    dtype = next((one.dtype for one in module.parameters()), torch.float32)
    trial = _Trial(module, input_shape, dtype)
    values = sum(one.numel() for one in module.parameters())
    jobs, rows = MANY if values < LARGE else FEW, 9
    tensors, inputs = trial.models(jobs), trial.inputs(jobs, rows)

    def found(count: int) -> list[Tensor]:
        leaves = {n: tensor[:count].clone() for n, tensor in tensors.items()}
        asked = [leaves[name].requires_grad_() for name in learns]
        valid = inputs.new_ones(count, rows)
        streams = trial.streams([rows] * count, rows)
        with torch.enable_grad():
            outputs, _ = stacked(leaves, inputs[:count], valid, streams)
            total = outputs.square().sum()
        slopes: Sequence[Tensor | None] = (
            torch.autograd.grad(total, asked, allow_unused=True) if asked else []
        )
        return [outputs, *[one for one in slopes if one is not None]]

    together = found(jobs)
    for count in {2 if stacked.single_differs else 1, 2}:
        for one, other in zip(found(count), together, strict=True):
            if not torch.equal(one, other[:count]):
                raise NotStackable("the bits of the batched form depend on the number of jobs")
