"""Attention and recurrent layers in steps that can be stacked.

torch has kernels of its own for them, which `vmap` cannot lay side by side, and which draw the numbers of their dropout
where nobody can count them. Written as products, sums and dropout they are stacked like any other layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from types import FunctionType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from fedvalue.learners.torch._modes import Function, Replacing

__all__ = ["InSteps", "OneByOne"]

State: TypeAlias = tuple[Tensor, ...]
Cell: TypeAlias = Callable[[Tensor, State, Tensor, Tensor | None], State]


class OneByOne(Replacing):
    """While it is active, functions of torch that `vmap` computes otherwise than for one model, or not at all, are computed in
    a way that is the same for both."""

    def __init__(self) -> None:
        super().__init__(_SAME)


def _embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, *args: Any, **kwargs: Any
) -> Tensor:
    """Under `vmap` torch forgets for all models but the first that the row of the padding is not trained."""
    found = functional.embedding(input, weight, None, *args, **kwargs)
    if padding_idx is None or not torch.is_grad_enabled():
        return found
    padding = (input == padding_idx % len(weight)).unsqueeze(-1)
    return torch.where(padding, found.detach(), found)


_SAME: dict[Function, Function] = {functional.embedding: _embedding}
if hasattr(torch, "_nested_tensor_from_mask_left_aligned"):
    # A transformer asks, in evaluation, whether it may leave out what is masked.
    _SAME[torch._nested_tensor_from_mask_left_aligned] = lambda *args, **kwargs: False


class InSteps(Replacing):
    """While it is active, attention and recurrent layers are computed in steps; entered after other modes, which see these."""

    def __init__(self) -> None:
        super().__init__({functional.multi_head_attention_forward: self._many_heads, **_STEPS})

    def _many_heads(self, *args: Any, **kwargs: Any) -> Any:
        with self:
            return _MANY_HEADS(*args, **kwargs)


def _seen_through(function: Any) -> Any:
    """A function of torch whose body is run with the modes that are active, instead of being handed to them as a whole."""
    inside = {**function.__globals__, "has_torch_function": lambda tensors: False}
    twin = FunctionType(
        function.__code__, inside, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


_MANY_HEADS = _seen_through(functional.multi_head_attention_forward)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What `scaled_dot_product_attention` is documented to compute; who may look at nothing gets zeros."""
    if enable_gqa:
        heads = query.shape[-3] // key.shape[-3]
        key, value = (part.repeat_interleave(heads, -3) for part in (key, value))
    scores = query @ key.mT * (1 / sqrt(query.shape[-1]) if scale is None else scale)
    nothing = None
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        seen = attn_mask if attn_mask.dtype == torch.bool else attn_mask > float("-inf")
        nothing = ~seen.any(-1, keepdim=True)
        if attn_mask.dtype != torch.bool:
            scores = scores + torch.where(nothing, 0.0, attn_mask)
        else:
            scores = torch.where(attn_mask | nothing, scores, float("-inf"))
    weights = scores.softmax(-1)
    if nothing is not None:
        weights = torch.where(nothing, 0.0, weights)
    return functional.dropout(weights, dropout_p) @ value if dropout_p else weights @ value


def _is_plain(*args: Any, **kwargs: Any) -> bool:
    """Whether the texts of a recurrent layer are of one length, and its states as wide as its cells."""
    if kwargs or len(args) != 9 or not isinstance(args[2], (list, tuple)):
        return False
    _, _, parameters, with_bias, layers, _, _, both_ways, _ = args
    return bool(len(parameters) == layers * (2 if both_ways else 1) * (4 if with_bias else 2))


def _recurrent(
    cell: Cell,
    x: Tensor,
    start: Tensor | Sequence[Tensor],
    parameters: Sequence[Tensor],
    with_bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    both_ways: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """The states after every step, and the last ones of every layer and direction."""
    states = (start,) if isinstance(start, Tensor) else tuple(start)
    x = x if batch_first else x.transpose(0, 1)  # samples first, as dropout counts them
    each, ways, last = (4 if with_bias else 2), (2 if both_ways else 1), []
    for layer in range(layers):
        if layer and dropout and training:
            x = functional.dropout(x, dropout)
        found = []
        for way in range(ways):
            k = layer * ways + way
            from_input, from_state, *biases = parameters[k * each : (k + 1) * each]
            inputs = functional.linear(x, from_input, biases[0] if biases else None)
            state = tuple(of_all[k] for of_all in states)
            after: list[Tensor] = []
            for step in range(x.shape[1])[:: -1 if way else 1]:
                state = cell(inputs[:, step], state, from_state, biases[1] if biases else None)
                after.append(state[0])
            found.append(torch.stack(after[:: -1 if way else 1], dim=1))
            last.append(state)
        x = torch.cat(found, dim=-1)
    return (
        x if batch_first else x.transpose(0, 1),
        *(torch.stack(parts) for parts in zip(*last, strict=True)),
    )


def _lstm(inputs: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    hidden, cell = state
    i, f, g, o = (inputs + functional.linear(hidden, weight, bias)).chunk(4, dim=-1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _gru(inputs: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    (hidden,) = state
    (reset, update, new), (r, u, n) = (
        part.chunk(3, dim=-1) for part in (inputs, functional.linear(hidden, weight, bias))
    )
    update = torch.sigmoid(update + u)
    new = torch.tanh(new + torch.sigmoid(reset + r) * n)
    return ((1 - update) * new + update * hidden,)


def _simple(activation: Callable[[Tensor], Tensor]) -> Cell:
    def cell(inputs: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        return (activation(inputs + functional.linear(state[0], weight, bias)),)

    return cell


def _stepped(function: Function, cell: Cell) -> Function:
    """A recurrent layer of torch in steps, unless its texts are packed or its states narrower than its cells."""

    def layer(*args: Any, **kwargs: Any) -> Any:
        return _recurrent(cell, *args) if _is_plain(*args, **kwargs) else function(*args, **kwargs)

    return layer


_STEPS: dict[Function, Function] = {
    # A recurrent layer on CUDA asks, and lays weights out for its own kernel unless two of them are the same.
    Tensor.data_ptr: lambda tensor: 0,
    functional.scaled_dot_product_attention: _attention,
    torch.lstm: _stepped(torch.lstm, _lstm),
    torch.gru: _stepped(torch.gru, _gru),
    torch.rnn_tanh: _stepped(torch.rnn_tanh, _simple(torch.tanh)),
    torch.rnn_relu: _stepped(torch.rnn_relu, _simple(torch.relu)),
}
