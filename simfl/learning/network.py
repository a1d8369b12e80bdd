"""One model: names, sizes and cost of its tensors, initial weights, and a forward pass.

A `Network` wraps any `torch.nn.Module`. The module is only a template: weights are passed to its
functions and returned, so that one network serves all clients and servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from simfl.common.contract import PartMisbehaves, at_work, named
from simfl.common.model_work import ModelWork
from simfl.common.training_memory import TrainingMemory
from simfl.learning.devices import ComputeDevice, device_of
from simfl.learning.kernels.pooling import pool_by_maxima
from simfl.learning.kernels.precision import Precision
from simfl.learning.kernels.stacked import StackedForward
from simfl.learning.kernels.stacked_graph import NotStackable
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters, size_bytes
from simfl.learning.stored_activations import kept_bytes
from simfl.learning.units import HiddenUnits
from simfl.learning.work import count_work

KernelFamily = Literal["stacked", "one_by_one", "loop"]
"""stacked: all jobs of a cohort in one batched form. one_by_one: the same form, a job at a time.
loop: the module itself, a job at a time, because it has no batched form."""


def seed_generator(seed: int, device: torch.device) -> None:
    """Seed torch's generators, of the CPU and of this device, inside a `seeded` block."""
    if device.type == "cuda":
        torch.manual_seed(seed)
    else:  # faster than `torch.manual_seed`, which also prepares other devices
        torch.default_generator.manual_seed(seed)


def generator_state(device: torch.device) -> Tensor:
    """The state of torch's generator for this device."""
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.default_generator.get_state()


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's generators for a block, and restores their states afterwards."""
    if device.type == "cuda":
        with torch.random.fork_rng(devices=[device]):
            seed_generator(seed, device)
            yield
        return
    state = torch.default_generator.get_state()
    seed_generator(seed, device)
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


class Network:
    """A module, the shape of one example, and the objective to minimise.

    `factory` builds the module; its random initialisation draws from torch's global generator,
    which `initial` seeds and restores. `input_shape` is that of one example, without a batch axis.
    `dtype` and `device` are those of weights and activations; `on` has more about the device.
    `precision` is that of products and convolutions in float32.
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module],
        input_shape: tuple[int, ...],
        objective: Objective,
        dtype: torch.dtype = torch.float32,
        device: ComputeDevice | torch.device | str = "cpu",
        precision: Precision = "float32",
    ) -> None:
        self.input_shape = tuple(input_shape)
        self.objective = objective
        self.dtype = dtype
        self.on = device_of(device)
        self.device = self.on.torch
        self.precision: Precision = precision
        self._factory = factory
        with seeded(0, self.device):
            self._module = factory().to(device=self.device, dtype=dtype)
        pool_by_maxima(self._module)
        state = self._module.state_dict()
        named = dict(self._module.named_parameters())
        self.parameter_names: tuple[str, ...] = tuple(named)
        self.trainable_names = frozenset(n for n, p in named.items() if p.requires_grad)
        self.buffer_names: tuple[str, ...] = tuple(
            name for name, _ in self._module.named_buffers() if name in state
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are rebuilt from the factory, which must be picklable for that."""
        return Network, (*self._made_of, self.dtype, self.on, self.precision)

    @property
    def _made_of(self) -> tuple[Callable[[], nn.Module], tuple[int, ...], Objective]:
        return self._factory, self.input_shape, self.objective

    def cast(self, dtype: torch.dtype) -> Network:
        """The same model computed in another precision."""
        return Network(*self._made_of, dtype, self.on, self.precision)

    def placed(self, device: ComputeDevice | torch.device | str) -> Network:
        """The same model on another device."""
        return Network(*self._made_of, self.dtype, device, self.precision)

    def computing(self) -> AbstractContextManager[None]:
        """Within the block, products have the precision `precision`, and are reproducible."""
        return self.on.computing(self.precision)

    def casting(self) -> AbstractContextManager[Any]:
        """Within the block, a module's products use bfloat16 if that is the `precision`."""
        if self.precision != "bfloat16" or self.dtype is not torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    @cached_property
    def template(self) -> Parameters:
        """Tensors with a model's names, shapes and types; their values have no meaning."""
        state = self._module.state_dict()
        return {name: state[name] for name in self.tensor_names}

    def initial(self, seed: int) -> Parameters:
        """Freshly initialised parameters and buffers, a pure function of `seed`."""
        with seeded(seed, self.device):
            module = self._factory().to(device=self.device, dtype=self.dtype)
        state = module.state_dict()
        return {name: state[name].detach().clone() for name in self.tensor_names}

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Names of all tensors of a model: parameters, then buffers."""
        return self.parameter_names + self.buffer_names

    @property
    def example_values(self) -> int:
        """The number of values of one example."""
        return math.prod(self.input_shape)

    @cached_property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Parameter names grouped by module, in the model's order."""
        layers: dict[str, list[str]] = {}
        for name in self.parameter_names:
            layers.setdefault(name.rpartition(".")[0], []).append(name)
        return tuple(map(tuple, layers.values()))

    @contextmanager
    def listening(self, layer: str | None = None) -> Iterator[list[Tensor]]:
        """Records a module's inputs in passes of `call` and the `loaded` module; see `Features`."""
        name, heard = self.feature_layer(layer), []

        def hear(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            heard.append(arguments[0])

        handles = [
            module.get_submodule(name).register_forward_pre_hook(hear)
            for module in (self._module, self._working)
        ]
        try:
            yield heard
        finally:
            for handle in handles:
                handle.remove()

    def feature_layer(self, layer: str | None = None) -> str:
        """The module whose inputs are the features: `layer`, or the last one with parameters.

        Raises ValueError for an unknown name.
        """
        if layer is None:
            return self.layers[-1][0].rpartition(".")[0]
        known = [name for name, _ in self._module.named_modules() if name]
        if layer not in known:
            accepted = f"a module of the model: {', '.join(known)}"
            raise ValueError(f"layer: found {layer!r}, accepted: {accepted}")
        return layer

    @cached_property
    def normalisation(self) -> frozenset[str]:
        """Names of the tensors (weights and running statistics) of BatchNorm modules, by type."""
        return frozenset(
            f"{prefix}.{name}" if prefix else name
            for prefix, module in self._module.named_modules()
            if isinstance(module, _BatchNorm)
            for name in module.state_dict()
        )

    @property
    def smallest_batch(self) -> int:
        """The fewest rows that training takes in a step: BatchNorm has no variance of one row."""
        return 2 if self.normalisation else 1

    @cached_property
    def affine(self) -> bool:
        """Whether the model is one affine map: its losses are convex in the parameters."""
        modules = list(self._module.modules())
        containers = [one for one in modules if list(one.children())]
        maps = [
            one
            for one in modules
            if not list(one.children()) and not isinstance(one, nn.Flatten | nn.Identity)
        ]
        in_series = all(type(one) is nn.Sequential for one in containers)
        return in_series and len(maps) == 1 and type(maps[0]) is nn.Linear

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of one model on the wire, as float32: parameters and floating-point buffers."""
        return self.size_of(self.tensor_names)

    def size_of(self, names: Iterable[str]) -> int:
        """Bytes of these tensors on the wire, as float32; integers (step counters) cost nothing."""
        held = self.template
        return size_bytes({name: held[name] for name in names if held[name].is_floating_point()})

    @cached_property
    def work(self) -> ModelWork:
        """The model's work, by kind (see `count_work`)."""
        by_layers = self.stacked is not None and self.stacked.only_layers
        example = torch.zeros(1, *self.input_shape, dtype=self.dtype, device=self.device)
        with seeded(0, self.device):
            return count_work(self._module, example, by_layers=by_layers)

    @cached_property
    def memory(self) -> TrainingMemory:
        """The device memory that training the model needs."""
        example = torch.zeros(1, *self.input_shape, dtype=self.dtype, device=self.device)
        by_layers = self.stacked is not None and self.stacked.only_layers
        with seeded(0, self.device):
            kept = kept_bytes(self._module, example, by_layers=by_layers)
        return TrainingMemory(self.size_bytes, self.size_of(self.trainable_names), kept)

    @property
    def forward_flops(self) -> float:
        """Floating-point operations of one example's forward pass (a multiply-add counts two)."""
        return self.work.forward_flops

    def loaded(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """A module with a copy of these values, in training mode, for a loop over steps.

        All calls return the same module, which keeps the values until the next call. `call` uses
        another.
        """
        module = self._working
        held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for name in self.tensor_names:
                held[name].copy_(tensors[name])
        if not module.training:
            module.train()
        return module

    @cached_property
    def _working(self) -> nn.Module:
        with seeded(0, self.device):
            return self._factory().to(device=self.device, dtype=self.dtype)

    def call(
        self, parameters: Mapping[str, Tensor], inputs: Tensor, training: bool
    ) -> tuple[Tensor, Parameters]:
        """One model's outputs (rows, outputs) of inputs (rows, ...), and its buffers afterwards.

        In training mode, updated running statistics are returned and those in `parameters` stay
        unchanged; the caller seeds the generator that the module draws from. In evaluation mode,
        every pass draws the same random numbers: outputs depend on parameters and inputs only,
        models are compared under the same draws, and a search that evaluates repeatedly sees one
        function.
        """
        if self._module.training != training:
            self._module.train(training)
        buffers = {name: parameters[name] for name in self.buffer_names}
        if training:
            buffers = {name: tensor.clone() for name, tensor in buffers.items()}
        # Models with a batched form draw nothing; seeding would take a tenth of a tiny pass.
        fixed = not training and not self.stackable
        draws = seeded(0, self.device) if fixed else nullcontext()
        with draws, self.computing(), self.casting(), at_work(self._module, "forward"):
            outputs: Any = functional_call(self._module, {**parameters, **buffers}, (inputs,))
        return self.one_tensor(outputs), buffers

    def call_each(self, models: Sequence[Mapping[str, Tensor]], inputs: Tensor) -> list[Tensor]:
        """Several models' outputs (rows, outputs) of the same inputs, in evaluation mode.

        Bit-identical to those of `call`. Leading modules with the very same tensors in all models
        are run once.
        """
        shared = self.shared_links(models)
        if not shared:
            return [self.call(one, inputs, training=False)[0] for one in models]
        if self._module.training:
            self._module.eval()
        with self.computing(), self.casting():
            common = self._through(self.chain[:shared], models[0], inputs)
            outputs = [self._through(self.chain[shared:], one, common) for one in models]
        return [self._cast_back(one) for one in outputs]

    def shared_links(self, models: Sequence[Mapping[str, Tensor]]) -> int:
        """The number of leading modules of the chain that have the same tensors in all models."""
        first, *others = models
        common = all(one[name] is first[name] for one in others for name in self.layers[0])
        if not others or not common or not self.stackable:
            return 0
        try:
            chain = self.chain
        except ValueError:
            return 0
        for place, (prefix, _) in enumerate(chain):
            own = [name for name in self.tensor_names if name.startswith(f"{prefix}.")]
            if not all(one[name] is first[name] for one in others for name in own):
                return place
        return len(chain)

    def _through(
        self, links: Sequence[tuple[str, nn.Module]], model: Mapping[str, Tensor], inputs: Tensor
    ) -> Tensor:
        """The outputs of modules of the chain, called one after another."""
        for prefix, module in links:
            names = dict(module.named_parameters()) | dict(module.named_buffers())
            inputs = functional_call(module, {n: model[f"{prefix}.{n}"] for n in names}, (inputs,))
        return inputs

    def one_tensor(self, outputs: Any) -> Tensor:
        """The module's result, if it is a tensor; raises PartMisbehaves for anything else."""
        if not isinstance(outputs, Tensor):
            raise PartMisbehaves(
                f"{named(self._module, 'forward')} gave a {type(outputs).__name__}, accepted: one"
                " tensor (a loss gets at other activations by `Minibatch.features`)"
            )
        return self._cast_back(outputs)

    def _cast_back(self, outputs: Tensor) -> Tensor:
        """Outputs in the network's own type, which `casting` may have changed."""
        return outputs.to(self.dtype) if self.precision == "bfloat16" else outputs

    @cached_property
    def stacked(self) -> StackedForward | None:
        """The forward pass of many models at once; None if some layer has no batched form."""
        return None if isinstance(self._form, str) else self._form

    @property
    def not_stacked_because(self) -> str | None:
        """Why there is no batched form; None if there is one."""
        return self._form if isinstance(self._form, str) else None

    @cached_property
    def _form(self) -> StackedForward | str:
        """The batched form, or the reason why there is none."""
        with seeded(0, self.device):  # tracing and testing run the module
            try:
                return StackedForward(self._module, self.input_shape)
            except NotStackable as reason:
                return str(reason)

    @cached_property
    def chain(self) -> tuple[tuple[str, nn.Module], ...]:
        """The named modules of a model that calls one after another, each exactly once.

        Raises ValueError for any other model.
        """
        try:
            with seeded(0, self.device):
                first, *middle, last = fx.symbolic_trace(self._module).graph.nodes
        except Exception as error:  # tracing runs the user's code, which may raise anything
            raise ValueError(f"cannot be traced: {error}") from error
        links = zip([first, *middle], [*middle, last], strict=True)
        names = [str(node.target) for node in middle]
        straight = all(after.all_input_nodes == [before] for before, after in links)
        modules_only = all(node.op == "call_module" for node in middle)
        if not straight or not modules_only or len(set(names)) < len(names):
            raise ValueError("does not call its modules one after the other, each of them once")
        modules = dict(self._module.named_modules())
        return tuple((name, modules[name]) for name in names)

    @cached_property
    def hidden_units(self) -> HiddenUnits:
        """The model's neurons and channels; raises ValueError if units cannot be separated."""
        self._module.eval()
        return HiddenUnits(self.chain, dict(self._module.state_dict()), self.input_shape)

    @property
    def stackable(self) -> bool:
        """Whether every layer has a batched form, so that evaluation draws no random numbers."""
        return self.stacked is not None

    @property
    def draws(self) -> bool:
        """Whether training may draw random numbers, which the caller must seed."""
        return self.stacked is None or self.stacked.draws

    @property
    def kernel_family(self) -> KernelFamily:
        """How jobs are trained together.

        A fixed rule by model, input shape and kind of device (`convolution_form`), never by timings
        or by the number of waiting jobs. It affects the last bits of results, and so is part of the
        numeric platform.
        """
        if self.stacked is None:
            return "loop"
        return "one_by_one" if self.stacked.one_by_one else "stacked"
