"""Recurrent layers for many sets of weights at once, from operations that torch can batch.

Torch's LSTM, GRU and RNN are single operations that have no batching rule and no second derivative.
Here the inputs of all steps are multiplied by their weights at once, and the steps are

    LSTM:  c ← σ(f)·c + σ(i)·tanh(g),   h ← σ(o)·tanh(c)
    GRU:   n = tanh(xₙ + σ(r)·hₙ),      h ← n + σ(z)·(h − n)
    RNN:   h ← tanh or relu(x + h)

with the gates x + h, x = W_ih·input + b_ih and h = W_hh·state + b_hh, as torch's documentation
writes them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence

__all__ = ["use_steps"]

State = tuple[Tensor, ...]  # (h,), or (h, c) of an LSTM


def use_steps(module: nn.Module) -> None:
    """Let the recurrent layers and cells of a module compute step by step."""
    for layer in module.modules():
        if type(layer) in _STEPWISE:
            layer.__class__ = _STEPWISE[type(layer)]


class _Stepwise(nn.RNNBase):
    """The forward pass of torch's recurrent layers: layouts, directions, stacked layers."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = input if isinstance(input, PackedSequence) else None
        if packed is not None:
            steps: State = packed.data.split(packed.batch_sizes.tolist())
            alone = False
        else:
            alone = input.ndim == 2
            steps = self._time_first(input.unsqueeze(1) if alone else input, alone).unbind(0)
        states = self._initial(hx, steps[0], alone)
        if packed is not None and hx is not None and packed.sorted_indices is not None:
            states = tuple(part.index_select(1, packed.sorted_indices) for part in states)
        steps, states = self._layers(steps, states)
        if packed is not None:
            if packed.unsorted_indices is not None:
                states = tuple(part.index_select(1, packed.unsorted_indices) for part in states)
            outputs: Any = packed._replace(data=torch.cat(steps))
        else:
            outputs = self._time_first(torch.stack(steps), alone)
            outputs = outputs.squeeze(1) if alone else outputs
        if alone:
            states = tuple(part.squeeze(1) for part in states)
        return outputs, states if len(states) == 2 else states[0]

    def __setattr__(self, name: str, value: Any) -> None:
        # Without the list of weights for torch's kernels, which it would keep up to date.
        nn.Module.__setattr__(self, name, value)

    def _layers(self, steps: State, states: State) -> tuple[State, State]:
        """All layers and directions: outputs of each step, and the last states."""
        directions = 2 if self.bidirectional else 1
        ends: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                order = slice(None, None, -1 if direction else 1)
                start = tuple(part[number] for part in states)
                found, end = self._run(steps[order], start, self._weights(layer, direction))
                outputs.append(found[order])
                ends.append(end)
            steps = tuple(torch.cat(parts, dim=-1) for parts in zip(*outputs, strict=True))
        return steps, tuple(torch.stack(parts) for parts in zip(*ends, strict=True))

    def _run(
        self, steps: State, state: State, weights: dict[str, Any]
    ) -> tuple[list[Tensor], State]:
        """One layer in one direction. A step of a packed batch has the first sequences only."""
        recurrent, bias = weights["weight_hh"], weights["bias_hh"]
        inner = weights["bias_ih"]
        if bias is not None and not isinstance(self, nn.GRU):  # both are added: once, not each step
            inner, bias = inner + bias, None
        lengths = [step.shape[0] for step in steps]
        inputs = linear(torch.cat(steps), weights["weight_ih"], inner)
        outputs = []
        for gates in inputs.split(lengths):
            count = gates.shape[0]
            now = tuple(part[:count] for part in state)
            new = _step(type(self), gates, linear(now[0], recurrent, bias), now, self.nonlinear)
            if weights["weight_hr"] is not None:
                new = (linear(new[0], weights["weight_hr"]), *new[1:])
            outputs.append(new[0])
            if count < state[0].shape[0]:  # the others have ended, or begin later in reverse
                pairs = zip(new, state, strict=True)
                new = tuple(torch.cat([part, old[count:]]) for part, old in pairs)
            state = new
        return outputs, state

    def _weights(self, layer: int, direction: int) -> dict[str, Any]:
        suffix = f"_l{layer}" + ("_reverse" if direction else "")
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return {name: getattr(self, name + suffix, None) for name in names}

    def _initial(self, hx: Any, like: Tensor, alone: bool) -> State:
        """The given states (layers, sequences, size), or zeros."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        if hx is not None:
            given = hx if isinstance(hx, tuple) else (hx,)
            return tuple(part.unsqueeze(1) for part in given) if alone else given
        sizes = [self.proj_size or self.hidden_size]
        sizes += [self.hidden_size] if isinstance(self, nn.LSTM) else []
        return tuple(like.new_zeros(count, like.shape[0], size) for size in sizes)

    def _time_first(self, values: Tensor, alone: bool) -> Tensor:
        return values.transpose(0, 1) if self.batch_first and not alone else values

    @property
    def nonlinear(self) -> Any:
        return torch.relu if getattr(self, "nonlinearity", "tanh") == "relu" else torch.tanh


def _step(kind: type, inputs: Tensor, recurrent: Tensor, state: State, nonlinear: Any) -> State:
    """The next state from the two halves of the gates."""
    if issubclass(kind, (nn.LSTM, nn.LSTMCell)):
        i, f, g, o = (inputs + recurrent).chunk(4, dim=-1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    if issubclass(kind, (nn.GRU, nn.GRUCell)):
        size = inputs.shape[-1] // 3
        gates = torch.sigmoid(inputs[..., : 2 * size] + recurrent[..., : 2 * size])
        r, z = gates.chunk(2, dim=-1)
        n = torch.tanh(inputs[..., 2 * size :] + r * recurrent[..., 2 * size :])
        return (n + z * (state[0] - n),)
    return (nonlinear(inputs + recurrent),)


class _StepCell(nn.RNNCellBase):
    """A cell of torch: one step, for a batch or one sequence."""

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        if hx is None:
            zeros = input.new_zeros(*input.shape[:-1], self.hidden_size)
            state: State = (zeros, zeros) if isinstance(self, nn.LSTMCell) else (zeros,)
        else:
            state = hx if isinstance(hx, tuple) else (hx,)
        gates = linear(input, self.weight_ih, self.bias_ih)
        recurrent = linear(state[0], self.weight_hh, self.bias_hh)
        relu = getattr(self, "nonlinearity", "tanh") == "relu"
        new = _step(type(self), gates, recurrent, state, torch.relu if relu else torch.tanh)
        return new if len(new) == 2 else new[0]


class _StepwiseLSTM(_Stepwise, nn.LSTM):
    pass


class _StepwiseGRU(_Stepwise, nn.GRU):
    pass


class _StepwiseRNN(_Stepwise, nn.RNN):
    pass


class _StepLSTMCell(_StepCell, nn.LSTMCell):
    pass


class _StepGRUCell(_StepCell, nn.GRUCell):
    pass


class _StepRNNCell(_StepCell, nn.RNNCell):
    pass


_STEPWISE: dict[type, type] = {
    nn.LSTM: _StepwiseLSTM,
    nn.GRU: _StepwiseGRU,
    nn.RNN: _StepwiseRNN,
    nn.LSTMCell: _StepLSTMCell,
    nn.GRUCell: _StepGRUCell,
    nn.RNNCell: _StepRNNCell,
}
