"""Attention of many jobs at once: every head of every row is one matrix in the stack."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simfl.learning.kernels.stacked_layers import Layer, Pass, curved, layer_norm, linear
from simfl.learning.kernels.stacked_product import stacked_linear, stacked_product

ACTIVATIONS: dict[Any, Layer] = {
    F.relu: lambda _, values: torch.relu(values),
    F.gelu: curved(F.gelu),
}
"""Activations supported between the two linear layers of torch's encoder layers."""


def attend(
    current: Pass,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`F.scaled_dot_product_attention` of folded rows: (jobs * rows, ..., places, features).

    attn_mask: the same for all rows, as in torch: it is added, or True where attention is allowed.
    """
    length, features = queries.shape[-2:]
    factor = 1.0 / math.sqrt(features) if scale is None else scale
    stacked = (queries * factor).reshape(-1, length, features)
    turned = keys.reshape(-1, *keys.shape[-2:]).transpose(1, 2)
    scores = stacked_product(stacked, turned).view(*queries.shape[:-1], keys.shape[-2])
    if is_causal and attn_mask is None:
        attn_mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = torch.softmax(scores, -1)
    if dropout_p:
        rows = current.by_job(weights)
        weights = current.dropped(rows, dropout_p).flatten(0, 1)
    mixed = stacked_product(
        weights.reshape(-1, *weights.shape[-2:]), values.reshape(-1, *values.shape[-2:])
    )
    return mixed.view(*queries.shape[:-1], values.shape[-1])


def multihead_attention(prefix: str, module: nn.MultiheadAttention) -> Layer:
    """Each job's own projections; returns (outputs, None): no averaged weights."""
    heads, width = module.num_heads, module.embed_dim

    def run(
        current: Pass,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        if key_padding_mask is not None:
            raise ValueError("a mask of padded places has no batched form")
        weight = current.tensors[f"{prefix}.in_proj_weight"]
        bias = current.tensors.get(f"{prefix}.in_proj_bias")
        given = [query, key, value]
        if not module.batch_first:
            given = [one.transpose(0, 1) for one in given]

        def projected(inputs: Tensor, first: int, last: int) -> Tensor:
            rows = inputs.reshape(current.jobs, -1, width)
            some = slice(first * width, last * width)
            out = stacked_linear(rows, weight[:, some], None if bias is None else bias[:, some])
            return out.view(*inputs.shape[:2], last - first, heads, width // heads)

        if query is key and key is value:
            parts = projected(given[0], 0, 3).unbind(2)
        else:
            parts = tuple(projected(one, n, n + 1)[:, :, 0] for n, one in enumerate(given))
        mask = attn_mask
        if mask is not None and mask.dtype == torch.bool:
            mask = ~mask  # in this module, True means not allowed
        q, k, v = (part.transpose(1, 2) for part in parts)
        mixed = attend(current, q, k, v, mask, module.dropout)
        joined = mixed.transpose(1, 2).reshape(current.jobs, -1, width)
        outputs = stacked_linear(
            joined,
            current.tensors[f"{prefix}.out_proj.weight"],
            current.tensors.get(f"{prefix}.out_proj.bias"),
        ).view(*given[0].shape[:2], width)
        return outputs if module.batch_first else outputs.transpose(0, 1), None

    return run


def encoder_layer(prefix: str, module: nn.TransformerEncoderLayer) -> Layer:
    """Self-attention and two linear layers, each with dropout, a shortcut and a LayerNorm."""
    attention = multihead_attention(f"{prefix}.self_attn", module.self_attn)
    first = linear(f"{prefix}.linear1", module.linear1)
    second = linear(f"{prefix}.linear2", module.linear2)
    norms = [layer_norm(f"{prefix}.norm1", module.norm1)]
    norms.append(layer_norm(f"{prefix}.norm2", module.norm2))
    between = ACTIVATIONS[module.activation]

    def run(
        current: Pass,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def dropped(values: Tensor, share: float) -> Tensor:
            rows = current.by_job(values)
            return current.dropped(rows, share).flatten(0, 1)

        def attended(values: Tensor) -> Tensor:
            mixed, _ = attention(
                current, values, values, values, src_key_padding_mask, attn_mask=src_mask
            )
            # Drawn in the order in which torch's attention leaves its outputs: places first. The
            # layout does not depend on the number of jobs, as later sums may follow the order of
            # memory.
            by_place = current.by_job(mixed).transpose(1, 2)
            kept = current.dropped(by_place, module.dropout1.p, axis=1)
            return kept.transpose(1, 2).contiguous().flatten(0, 1)

        def fed(values: Tensor) -> Tensor:
            hidden = dropped(between(current, first(current, values)), module.dropout.p)
            return dropped(second(current, hidden), module.dropout2.p)

        if module.norm_first:
            values: Tensor = src + attended(norms[0](current, src))
            return values + fed(norms[1](current, values))
        values = norms[0](current, src + attended(src))
        found: Tensor = norms[1](current, values + fed(values))
        return found

    return run


def encoder(prefix: str, module: nn.TransformerEncoder) -> Layer:
    """Encoder layers one after another."""
    layers = [encoder_layer(f"{prefix}.layers.{n}", one) for n, one in enumerate(module.layers)]
    norm = layer_norm(f"{prefix}.norm", module.norm) if type(module.norm) is nn.LayerNorm else None

    def run(
        current: Pass,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        for layer in layers:
            src = layer(current, src, mask, src_key_padding_mask)
        return src if norm is None else norm(current, src)

    return run


def attention_obstacle(module: nn.Module) -> str | None:
    """Why a module with attention has no batched form; None if it has one."""
    for one in module.modules():
        if isinstance(one, nn.MultiheadAttention):
            if not one._qkv_same_embed_dim or one.bias_k is not None or one.add_zero_attn:
                return "keys and values of other widths, or extra ones"
        elif isinstance(one, nn.TransformerEncoderLayer):
            if one.activation not in ACTIVATIONS:
                return "an activation that is neither relu nor gelu"
            if not one.self_attn.batch_first:
                return "batch_first is false"
        elif isinstance(one, nn.TransformerEncoder) and type(one.norm) not in (
            nn.LayerNorm,
            type(None),
        ):
            return "a norm that is no LayerNorm"
    return None
