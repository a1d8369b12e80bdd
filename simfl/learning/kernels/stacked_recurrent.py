"""LSTM and GRU layers of many jobs at once, with hand-written gradients through time.

Autograd would create a node for every gate at every place in a sequence. Here the inputs of all
places are one product per job, a step in time is one product and a few elementwise operations over
all jobs, and the recurrent weights' gradient is one product over all places.

Internally rows are last, (jobs, places, gates, rows): each gate of a job is contiguous, and those
of several jobs are never adjacent, so no vector of an elementwise kernel spans two jobs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from simfl.learning.kernels.stacked_layers import Layer, Pass
from simfl.learning.kernels.stacked_product import aligned, product, stacked_linear

MOST_IN_STEPS = 512
"""Up to this many places times units of an LSTM, steps over all jobs are faster on a CPU. Beyond
that, torch's kernel for whole sequences is faster, job by job.
"""


def recurrent(prefix: str, module: nn.LSTM | nn.GRU) -> Layer:
    """All layers and directions of the module; its state starts at zero."""
    lstm, size = isinstance(module, nn.LSTM), module.hidden_size
    directions = 2 if module.bidirectional else 1

    def run(current: Pass, inputs: Tensor, state: None = None) -> tuple[Tensor, Any]:
        if state is not None:
            raise ValueError("a state to start from has no batched form")
        folded = inputs if module.batch_first else inputs.transpose(0, 1)
        between = module.dropout > 0 and module.num_layers > 1  # drawn from each job's own stream
        long = folded.shape[1] * size > MOST_IN_STEPS and inputs.device.type == "cpu"
        if isinstance(module, nn.LSTM) and long and not (between and current.training):
            outputs, states = _job_by_job(current, prefix, module, folded)
            return outputs if module.batch_first else outputs.transpose(0, 1), states
        # (jobs, places, rows, features)
        values = current.by_job(folded).transpose(1, 2)
        last: list[tuple[Tensor, ...]] = []
        for layer in range(module.num_layers):
            ways = []
            for suffix in ("", "_reverse")[:directions]:
                given = values.flip(1) if suffix else values
                found, *state_of = _one_direction(
                    current, f"{prefix}.", f"_l{layer}{suffix}", given, size, lstm
                )
                ways.append(found.flip(1) if suffix else found)
                last.append((found[:, -1], *state_of))
            values = ways[0] if directions == 1 else torch.cat(ways, -1)
            if module.dropout and layer < module.num_layers - 1:
                values = current.dropped(values, module.dropout, axis=1)
        # The layout does not depend on the number of jobs, as later sums may follow the order of
        # memory.
        outputs_of_rows = values.transpose(1, 2).contiguous().flatten(0, 1)
        last_ones = tuple(torch.stack(column).flatten(1, 2) for column in zip(*last, strict=True))
        return (
            outputs_of_rows if module.batch_first else outputs_of_rows.transpose(0, 1),
            last_ones if lstm else last_ones[0],
        )

    return run


def _job_by_job(
    current: Pass, prefix: str, module: nn.LSTM, folded: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """An LSTM by torch's library, job after job: outputs, and last outputs and cells."""
    names: list[str] = [name for weights in module._all_weights for name in weights]
    weights = [current.tensors[f"{prefix}.{name}"].unbind(0) for name in names]
    found = []
    for job, rows in enumerate(current.by_job(folded).unbind(0)):
        layers = module.num_layers * (2 if module.bidirectional else 1)
        zeros = rows.new_zeros(layers, len(rows), module.hidden_size)
        own = [one[job].clone() for one in weights]  # starts on a cache line, for every job
        found.append(
            torch._VF.lstm(
                rows.contiguous(),
                (zeros, zeros),
                own,
                module.bias,
                module.num_layers,
                0.0,
                True,
                module.bidirectional,
                True,
            )
        )
    outputs, last, cells = zip(*found, strict=True)
    return torch.cat(outputs), (torch.cat(last, 1), torch.cat(cells, 1))


def _one_direction(
    current: Pass, prefix: str, suffix: str, values: Tensor, size: int, lstm: bool
) -> tuple[Tensor, ...]:
    """Outputs (jobs, places, rows, size) for values (jobs, places, rows, features), and the last
    cell.
    """

    def named(name: str) -> Tensor | None:
        return current.tensors.get(f"{prefix}{name}{suffix}")

    to_gates, from_state = named("weight_ih"), named("weight_hh")
    bias, bias_of_state = named("bias_ih"), named("bias_hh")
    assert to_gates is not None and from_state is not None
    if bias is not None and bias_of_state is not None:
        bias = bias + bias_of_state if lstm else bias
    flat = values.reshape(len(values), -1, values.shape[-1])
    gates = stacked_linear(flat, to_gates, bias).view(*values.shape[:3], -1)
    if lstm:
        outputs, cell = _Lstm.apply(gates, from_state)  # type: ignore[no-untyped-call]
        return outputs, cell
    if bias_of_state is None:
        bias_of_state = from_state.new_zeros(from_state.shape[:2])
    return (_Gru.apply(gates, from_state, bias_of_state),)  # type: ignore[no-untyped-call]


def _rows_last(values: Tensor) -> Tensor:
    """(jobs, places, rows, features) as (jobs, places, features, rows) or vice versa: a copy."""
    return values.transpose(2, 3).clone(memory_format=torch.contiguous_format)


def _weights_gradient(slopes: Tensor, outputs: Tensor) -> Tensor:
    """The recurrent weights' gradient (jobs, gates, size): slopes times the preceding outputs.

    slopes (jobs, places, rows, gates), outputs (jobs, places, rows, size).
    """
    after = slopes[:, 1:].flatten(1, 2)
    before = outputs[:, :-1].flatten(1, 2)
    return product(aligned(after).transpose(1, 2), aligned(before))


class _Lstm(torch.autograd.Function):
    """From the inputs' gates (jobs, places, rows, 4 size) and the recurrent weights.

    Returns the outputs (jobs, places, rows, size) and the last cell (jobs, rows, size). Gates are
    in torch's order: input, forget, cell, output.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        size = weight.shape[2]
        acts, weight = _rows_last(gates), aligned(weight)
        jobs, places, _, rows = acts.shape
        cells, curved, outputs = (acts.new_empty(jobs, places, size, rows) for _ in range(3))
        for t in range(places):
            now = acts[:, t]
            if t:
                now.add_(product(weight, aligned(outputs[:, t - 1])))
            now[:, : 2 * size].sigmoid_()
            new, shown = now[:, 2 * size : 3 * size].tanh_(), now[:, 3 * size :].sigmoid_()
            cell = torch.mul(now[:, :size], new, out=cells[:, t])
            if t:
                cell.add_(now[:, size : 2 * size] * cells[:, t - 1])
            torch.tanh(cell, out=curved[:, t])
            torch.mul(shown, curved[:, t], out=outputs[:, t])
        found = _rows_last(outputs)
        ctx.save_for_backward(acts, cells, curved, found, weight)
        return found, cells[:, -1].transpose(1, 2).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor, to_last: Tensor) -> tuple[Tensor, Tensor]:
        acts, cells, curved, outputs, weight = ctx.saved_tensors
        size, places = weight.shape[2], acts.shape[1]
        slopes = _rows_last(slopes)
        found = torch.empty_like(acts)
        # derivatives at all places at once: s (1 - s) for sigmoid gates, 1 - g^2 for the tanh gate
        steep = acts * (1 - acts)
        new = acts[:, :, 2 * size : 3 * size]
        steep[:, :, 2 * size : 3 * size] = 1 - new * new
        through = acts[:, :, 3 * size :] * (1 - curved * curved)
        turned = weight.transpose(1, 2)
        to_cell = to_last.transpose(1, 2).clone(memory_format=torch.contiguous_format)
        for t in reversed(range(places)):
            to_output, now, here = slopes[:, t], acts[:, t], found[:, t]
            to_cell = to_cell.add_(to_output * through[:, t])
            torch.mul(to_cell, now[:, 2 * size : 3 * size], out=here[:, :size])
            if t:
                torch.mul(to_cell, cells[:, t - 1], out=here[:, size : 2 * size])
            else:
                here[:, size : 2 * size].zero_()
            torch.mul(to_cell, now[:, :size], out=here[:, 2 * size : 3 * size])
            torch.mul(to_output, curved[:, t], out=here[:, 3 * size :])
            here.mul_(steep[:, t])
            if t:
                slopes[:, t - 1].add_(product(turned, aligned(here)))
                to_cell.mul_(now[:, size : 2 * size])
        found = _rows_last(found)
        return found, _weights_gradient(found, outputs)


class _Gru(torch.autograd.Function):
    """From the inputs' gates (jobs, places, rows, 3 size), the recurrent weights and their bias.

    Returns the outputs (jobs, places, rows, size). Gates are in torch's order: reset, update, new.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        size = weight.shape[2]
        acts, weight = _rows_last(gates), aligned(weight)
        jobs, places, _, rows = acts.shape
        outputs, shares = (acts.new_empty(jobs, places, size, rows) for _ in range(2))
        bias = bias.unsqueeze(2)
        for t in range(places):
            now = acts[:, t]
            if t:
                of_state = product(weight, aligned(outputs[:, t - 1])).add_(bias)
            else:
                of_state = bias.expand(-1, -1, rows)
            now[:, : 2 * size].add_(of_state[:, : 2 * size]).sigmoid_()
            share = shares[:, t].copy_(of_state[:, 2 * size :])
            new = now[:, 2 * size :].add_(now[:, :size] * share).tanh_()
            update, output = now[:, size : 2 * size], outputs[:, t]
            before = outputs[:, t - 1] if t else torch.zeros_like(output)
            torch.mul(update, before - new, out=output).add_(new)
        found = _rows_last(outputs)
        ctx.save_for_backward(acts, shares, outputs, found, weight)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        acts, shares, outputs, rows_first, weight = ctx.saved_tensors
        size, places = weight.shape[2], acts.shape[1]
        slopes = _rows_last(slopes)
        of_inputs, of_state = torch.empty_like(acts), torch.empty_like(acts)
        reset, update, new = (acts[:, :, n * size : (n + 1) * size] for n in range(3))
        steep_gates = acts[:, :, : 2 * size] * (1 - acts[:, :, : 2 * size])
        steep_new = (1 - update) * (1 - new * new)
        turned = weight.transpose(1, 2)
        for t in reversed(range(places)):
            slope, here = slopes[:, t], of_inputs[:, t]
            to_new = torch.mul(slope, steep_new[:, t], out=here[:, 2 * size :])
            gap = outputs[:, t - 1] - new[:, t] if t else -new[:, t]
            torch.mul(slope, gap, out=here[:, size : 2 * size])
            torch.mul(to_new, shares[:, t], out=here[:, :size])
            here[:, : 2 * size].mul_(steep_gates[:, t])
            of_state[:, t, : 2 * size] = here[:, : 2 * size]
            torch.mul(to_new, reset[:, t], out=of_state[:, t, 2 * size :])
            if t:
                before = slopes[:, t - 1]
                before.add_(slope * update[:, t])
                before.add_(product(turned, aligned(of_state[:, t])))
        of_inputs, of_state = _rows_last(of_inputs), _rows_last(of_state)
        return (
            of_inputs,
            _weights_gradient(of_state, rows_first),
            of_state.flatten(1, 2).sum(1),
        )


def recurrent_obstacle(module: nn.LSTM | nn.GRU) -> str | None:
    """Why a recurrent layer has no batched form; None if it has one."""
    return "its outputs are projected" if module.proj_size else None
