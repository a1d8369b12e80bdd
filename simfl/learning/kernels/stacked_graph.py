"""The layers of a traced module, and the tables of layers with a batched form.

A value is one of three kinds: per row, folded (jobs * rows, ...); per model, (jobs, ...), such as a
parameter that the module adds to its rows; or common, the same for all.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from simfl.learning.kernels.stacked_attention import (
    attend,
    attention_obstacle,
    encoder,
    encoder_layer,
    multihead_attention,
)
from simfl.learning.kernels.stacked_convolution import Convolution
from simfl.learning.kernels.stacked_layers import (
    Layer,
    Pass,
    batch_norm,
    curved,
    dropout,
    embedding,
    group_norm,
    layer_norm,
    linear,
    plain,
)
from simfl.learning.kernels.stacked_product import stacked_linear, stacked_product
from simfl.learning.kernels.stacked_recurrent import recurrent, recurrent_obstacle

Kind = Literal["rows", "model", "common"]

# Exact in every element (at most one rounding), or computed row by row.
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
    operator.truediv: operator.truediv,
    operator.neg: operator.neg,
    operator.getitem: operator.getitem,
    getattr: getattr,
    torch.add: operator.add,
    torch.mul: operator.mul,
    torch.cat: torch.cat,
    torch.stack: torch.stack,
    torch.flatten: torch.flatten,
    torch.transpose: torch.transpose,
    torch.permute: torch.permute,
    torch.unsqueeze: torch.unsqueeze,
    torch.squeeze: torch.squeeze,
    torch.mean: torch.mean,
    torch.relu: torch.relu,
    F.relu: F.relu,
    F.relu6: F.relu6,
    F.leaky_relu: F.leaky_relu,
    F.max_pool2d: F.max_pool2d,
    torch.max_pool2d: torch.max_pool2d,
    F.avg_pool2d: F.avg_pool2d,
    F.adaptive_avg_pool2d: F.adaptive_avg_pool2d,
}
PLAIN_METHODS = frozenset((
    "view", "reshape", "flatten", "size", "dim", "contiguous", "unsqueeze", "squeeze", "transpose",
    "permute", "chunk", "split", "unbind", "unflatten", "expand", "long", "int", "float", "to",
    "relu", "mean",
))  # fmt: skip
BETWEEN = {
    operator.add: operator.add,
    operator.iadd: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    torch.add: operator.add,
    torch.mul: operator.mul,
}
"""Elementwise functions of two values, one of which may be per model."""

COMMON_FUNCTIONS = (
    torch.arange, torch.ones, torch.zeros, torch.full, torch.triu, torch.tril,
    operator.floordiv, operator.pow, math.sqrt, int, float,
)  # fmt: skip
"""Functions, in addition to the plain ones, that may compute a common value."""

# Several roundings, or a transcendental function: see VECTOR.
CURVED_MODULES = (nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Tanh, nn.SELU)
CURVED_FUNCTIONS = (torch.tanh, torch.sigmoid, F.elu, F.gelu, F.silu, F.selu, F.softplus)
CURVED_METHODS = frozenset({"tanh", "sigmoid"})

SOFTMAX = {
    F.softmax: torch.softmax,
    torch.softmax: torch.softmax,
    F.log_softmax: torch.log_softmax,
    torch.log_softmax: torch.log_softmax,
}


ATTENTION: dict[Any, Callable[..., Layer]] = {
    nn.MultiheadAttention: multihead_attention,
    nn.TransformerEncoderLayer: encoder_layer,
    nn.TransformerEncoder: encoder,
}


class NotStackable(ValueError):
    """A module that cannot be traced, or has a layer without a batched form."""


def layers_of(graph: fx.Graph, module: nn.Module) -> dict[fx.Node, Layer]:
    """The computation at every node; raises NotStackable with everything that has no batched
    form.
    """
    modules = dict(module.named_modules())
    held = {*dict(module.named_parameters()), *module.state_dict()}
    kinds: dict[fx.Node, Kind] = {}
    layers: dict[fx.Node, Layer] = {}
    obstacles: dict[str, None] = {}
    for node in graph.nodes:
        kinds[node] = "rows" if not kinds else _kind(node, kinds, held)
        try:
            layers[node] = _layer(node, kinds, module, modules)
        except NotStackable as obstacle:
            obstacles[str(obstacle)] = None
    if obstacles:
        raise NotStackable("; ".join(obstacles))
    return layers


def draws_by_function(graph: fx.Graph) -> bool:
    """Whether a function in the graph draws random numbers."""
    drawing = (F.dropout, F.scaled_dot_product_attention)
    return any(node.op == "call_function" and node.target in drawing for node in graph.nodes)


def multiplies_elsewhere(graph: fx.Graph, modules: Mapping[str, nn.Module]) -> bool:
    """Whether there are matrix products outside of Linear and Conv2d layers."""
    multiplying = (*ATTENTION, nn.LSTM, nn.GRU)
    functions = (operator.matmul, torch.matmul, torch.bmm, F.scaled_dot_product_attention)
    return any(
        (node.op == "call_module" and type(modules[str(node.target)]) in multiplying)
        or (node.op == "call_function" and node.target in functions)
        or (node.op == "call_method" and node.target in ("matmul", "bmm"))
        for node in graph.nodes
    )


def _kind(node: fx.Node, kinds: Mapping[fx.Node, Kind], held: set[str]) -> Kind:
    if node.op == "get_attr":
        return "model" if str(node.target) in held else "common"
    if (node.op, node.target) in (("call_method", "size"), ("call_method", "dim")):
        return "common"
    if node.op == "call_function" and node.target is getattr:
        return "common"  # such as a shape or a device
    given = {kinds[one] for one in node.all_input_nodes}
    if "rows" in given:
        return "rows"
    return "model" if "model" in given or node.op == "call_module" else "common"


def _layer(
    node: fx.Node,
    kinds: Mapping[fx.Node, Kind],
    module: nn.Module,
    modules: Mapping[str, nn.Module],
) -> Layer:
    """The computation at one node of the graph."""
    target, name = node.target, str(node.target)
    given = [kinds[one] for one in node.all_input_nodes]
    if node.op == "output":
        return plain(lambda value: value)
    if node.op == "placeholder":
        default = node.args[0] if node.args else None
        return lambda _, *arguments: arguments[0] if arguments else default
    if node.op == "get_attr":
        return _attribute(name, kinds[node], module)
    if node.op == "call_module":
        if "rows" in given and "model" not in given:
            return _module_layer(name, modules[name])
        if given == ["common"] and type(modules[name]) is nn.Embedding:
            return _common_rows_of(name)
    elif "model" in given:
        if found := _with_models(node, kinds):
            return found
    elif set(given) <= {"common"}:
        if node.op == "call_method" and target in PLAIN_METHODS:
            return plain(getattr(Tensor, name))
        if target in PLAIN_FUNCTIONS or target in COMMON_FUNCTIONS:
            return plain(target)  # type: ignore[arg-type]  # a function
    elif found := _method_layer(name) if node.op == "call_method" else _function_layer(target):
        return found
    what = name if node.op == "call_method" else getattr(target, "__name__", name)
    raise NotStackable(f"{node.op} {what} has no batched form")


def _attribute(name: str, kind: Kind, module: nn.Module) -> Layer:
    """A parameter or buffer of every model, or a constant of the module."""
    if kind == "model":
        return lambda current: current.tensors[name]
    constant: Any = module
    for part in name.split("."):
        constant = getattr(constant, part)
    return plain(lambda: constant)


def _common_rows_of(prefix: str) -> Layer:
    """Embeddings of indices that all rows share: (jobs, places, features)."""

    def run(current: Pass, indices: Tensor) -> Tensor:
        table = current.tensors[f"{prefix}.weight"]
        found = table.index_select(1, indices.flatten())
        return found.view(len(table), *indices.shape, table.shape[2])

    return run


def _with_models(node: fx.Node, kinds: Mapping[fx.Node, Kind]) -> Layer | None:
    """A function of a value per model, alone or with one value per row."""
    values = [kinds[one] if isinstance(one, fx.Node) else None for one in node.args]
    if node.op == "call_function" and values in (["rows", "model"], ["model", "rows"]):
        if node.target in BETWEEN:
            return _between(BETWEEN[node.target], values.index("model"))
        if node.target in (operator.matmul, torch.matmul) and values[1] == "model":
            return _times_model
    if "rows" in values or values[:1] != ["model"] or values.count("model") != 1:
        return None
    if node.op == "call_method" and node.target in PLAIN_METHODS - {"view", "reshape", "expand"}:
        return _of_each_model(getattr(Tensor, str(node.target)))
    if node.op == "call_function" and node.target in PLAIN_FUNCTIONS:
        return _of_each_model(PLAIN_FUNCTIONS[node.target])
    return None


def _between(function: Callable[..., Tensor], place: int) -> Layer:
    """`function` of two values: the one at `place` is per model, the other per row."""

    def run(current: Pass, *arguments: Tensor) -> Tensor:
        of_model, rows = arguments[place], current.by_job(arguments[1 - place])
        missing = rows.dim() - 1 - of_model.dim()
        if missing < -1 or (missing == -1 and of_model.shape[1] != 1):
            raise ValueError("a parameter has a value for every row")
        if missing == -1:
            spread = of_model
        else:
            spread = of_model.reshape(len(of_model), *[1] * (missing + 1), *of_model.shape[1:])
        both = (spread, rows) if place == 0 else (rows, spread)
        return function(*both).flatten(0, 1)

    return run


def _times_model(current: Pass, rows: Tensor, weight: Tensor) -> Tensor:
    """Rows (..., features) times each job's own matrix (features, outputs)."""
    if weight.dim() != 3:
        raise ValueError("a parameter that is no matrix")
    flat = rows.reshape(current.jobs, -1, rows.shape[-1])
    found = stacked_linear(flat, weight.transpose(1, 2), None)
    return found.reshape(*rows.shape[:-1], weight.shape[2])


def _of_each_model(function: Callable[..., Any]) -> Layer:
    """A function that is applied to every model separately."""

    def run(_: Pass, of_model: Tensor, *arguments: Any, **settings: Any) -> Any:
        return torch.vmap(lambda one: function(one, *arguments, **settings))(of_model)

    return run


def _times_rows(_: Pass, left: Tensor, right: Tensor) -> Tensor:
    """The matrix product of two values per row."""
    if left.dim() != right.dim() or left.dim() < 3:
        raise ValueError("a product of values that are no matrices")
    found = stacked_product(
        left.reshape(-1, *left.shape[-2:]), right.reshape(-1, *right.shape[-2:])
    )
    return found.view(*left.shape[:-1], right.shape[-1])


def _softmax(function: Callable[..., Tensor]) -> Layer:
    """Softmax over the last axis, which is computed row by row."""

    def run(_: Pass, values: Tensor, dim: int | None = None, **__: Any) -> Tensor:
        if dim is None or dim % values.dim() != values.dim() - 1:
            raise ValueError("a softmax over another axis than the last")
        return function(values, dim=-1)

    return run


def _dropout_function(
    current: Pass, values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    found: Tensor = dropout(p if training else 0.0)(current, values)
    return found


def _attention_function(
    current: Pass,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    return attend(current, query, key, value, attn_mask, dropout_p, is_causal, scale)


def _function_layer(target: Any) -> Layer | None:
    if target in PLAIN_FUNCTIONS:
        return plain(PLAIN_FUNCTIONS[target])
    if target in CURVED_FUNCTIONS:
        return curved(target)
    if target in SOFTMAX:
        return _softmax(SOFTMAX[target])
    if target in (operator.matmul, torch.matmul, torch.bmm):
        return _times_rows
    if target is F.dropout:
        return _dropout_function
    if target is F.scaled_dot_product_attention:
        return _attention_function
    return None


def _method_layer(name: str) -> Layer | None:
    if name in PLAIN_METHODS:
        return plain(getattr(Tensor, name))
    if name in CURVED_METHODS:
        return curved(getattr(Tensor, name))
    if name in ("softmax", "log_softmax"):
        return _softmax(getattr(torch, name))
    if name in ("matmul", "bmm"):
        return _times_rows
    return None


def _ordinary(module: nn.Conv2d) -> bool:
    """Whether a convolution is ungrouped and pads with zeros."""
    return module.padding_mode == "zeros" and module.groups == 1


def _module_layer(prefix: str, module: nn.Module) -> Layer:
    found = _weighted_layer(prefix, module) or _weightless_layer(module)
    if found is None:
        raise NotStackable(f"{prefix} ({type(module).__name__}) has no batched form")
    return found


def _weighted_layer(prefix: str, module: nn.Module) -> Layer | None:
    if isinstance(module, nn.Linear):
        return linear(prefix, module)
    if isinstance(module, nn.Conv2d) and _ordinary(module):
        return Convolution(prefix, module)
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        return batch_norm(prefix, module)
    if type(module) is nn.LayerNorm:
        return layer_norm(prefix, module)
    if type(module) is nn.GroupNorm:
        return group_norm(prefix, module)
    if type(module) is nn.Embedding and module.max_norm is None and not module.scale_grad_by_freq:
        return embedding(prefix, module)
    if type(module) in (nn.LSTM, nn.GRU):
        return recurrent(prefix, _free(prefix, module, recurrent_obstacle))
    if attention := ATTENTION.get(type(module)):
        return attention(prefix, _free(prefix, module, attention_obstacle))
    return None


def _weightless_layer(module: nn.Module) -> Layer | None:
    if isinstance(module, nn.Dropout | nn.Dropout1d | nn.Dropout2d) and module.p < 1:
        return dropout(module.p, features=0 if type(module) is nn.Dropout else 1)
    if type(module) is nn.Softmax or type(module) is nn.LogSoftmax:
        softmax = torch.softmax if type(module) is nn.Softmax else torch.log_softmax
        return lambda current, values: _softmax(softmax)(current, values, module.dim)
    if type(module) in PLAIN_MODULES:
        return plain(_out_of_place(module))
    if type(module) in CURVED_MODULES:
        return curved(_out_of_place(module))
    return None


def _free(prefix: str, module: Any, obstacle: Callable[[Any], str | None]) -> Any:
    """The module; raises NotStackable if there is an obstacle."""
    if reason := obstacle(module):
        raise NotStackable(f"{prefix} ({type(module).__name__}) has no batched form: {reason}")
    return module


def _out_of_place(module: nn.Module) -> nn.Module:
    """The module without `inplace`, which would overwrite values that the backward pass needs."""
    if getattr(module, "inplace", False):
        module = copy.copy(module)
        module.inplace = False  # type: ignore[assignment]
    return module
