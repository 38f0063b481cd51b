"""A decoder-only language model as sizes, and the work of its pieces.

Pieces (see costs/base.py for a step): `rows` is everything done to each token alone, `prefill` and `decode` are
attention over what came before (and the recurrent state of linear attention), `head` the logits of sampled tokens.
Work counts a multiplication and an addition as two; activations are two bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from easerve.costs.work import Work

ACTIVATION = 2  # bytes


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in each layer: `active` of `count` for a token, and one that is for all."""

    count: int
    active: int
    mlp: int
    shared_mlp: int = 0


@dataclass(frozen=True)
class LinearAttention:
    """Gated DeltaNet layers, that keep a state of fixed size instead of keys and values."""

    layers: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    convolution: int

    @property
    def mixed(self) -> int:
        """Width of queries, keys and values together."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def values(self) -> int:
        return self.value_heads * self.value_dim

    @property
    def state(self) -> int:
        """Numbers of a layer's state."""
        return self.values * self.key_dim

    def matrices(self, width: int) -> int:
        return width * (self.mixed + self.values + 2 * self.value_heads) + self.values * width

    def small(self) -> int:
        """Parameters of a layer that are in no matrix: convolution, decay, step sizes, norm."""
        return self.mixed * self.convolution + 2 * self.value_heads + self.value_dim


@dataclass(frozen=True)
class LanguageShape:
    """`layers` includes linear ones; `mlp` is the inner width of a dense layer's gated MLP."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocabulary: int
    context: int
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    gated_query: bool = False  # a query head brings an output gate of its own width
    norms: int = 2  # in a layer, of full width
    experts: Experts | None = None
    linear: LinearAttention | None = None

    @cached_property
    def attention_layers(self) -> int:
        return self.layers - (self.linear.layers if self.linear else 0)

    @property
    def parameters(self) -> int:
        return self._matrices(self.experts.count if self.experts else 1) + self._small + self.tables

    @cached_property
    def active_parameters(self) -> int:
        """Those of the layers that take part in one token; neither embedding nor head."""
        return self._matrices(self.experts.active if self.experts else 1)

    @property
    def tables(self) -> int:
        """Embedding and head."""
        return self.vocabulary * self.width * (1 if self.tied else 2)

    def weight_bytes(self, bytes_per_weight: float) -> float:
        """Embedding, head, norms and biases stay two bytes."""
        whole = self._matrices(self.experts.count if self.experts else 1)
        return whole * bytes_per_weight + 2 * (self.tables + self._small)

    @cached_property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of all attention layers, in two bytes."""
        return 2 * ACTIVATION * self.attention_layers * self.kv_heads * self.head_dim

    @property
    def state_bytes(self) -> int:
        """Of a sequence's linear attention, in float32."""
        return 4 * self.linear.layers * self.linear.state if self.linear else 0

    def rows(self, tokens: float, bytes_per_weight: float) -> Work:
        touched = self.active_parameters
        if self.experts:
            touched = self._matrices(min(self.experts.count, tokens * self.experts.active))
        activations = ACTIVATION * tokens * self.layers * (8 * self.width + 3 * self._mlp_width)
        return Work(2 * tokens * self.active_parameters, touched * bytes_per_weight + activations)

    def prefill(self, new: float, context: float) -> Work:
        """`new` tokens of one sequence behind `context`: each attends to those, and to half of the new on average."""
        seen = context + new / 2
        flops = 4 * new * seen * self.heads * self.head_dim * self.attention_layers
        traffic = self.kv_bytes_per_token * (context + new) + self._query_bytes * new
        return Work(flops, traffic) + self._recurrence(new, sequences=1)

    def decode(self, sequences: float, context: float) -> Work:
        """One token for each of `sequences` that have `context` tokens on average."""
        seen = sequences * context
        flops = 4 * seen * self.heads * self.head_dim * self.attention_layers
        traffic = self.kv_bytes_per_token * seen + self._query_bytes * sequences
        return Work(flops, traffic) + self._recurrence(sequences, sequences)

    def head(self, sampled: float) -> Work:
        size = self.vocabulary * self.width
        return Work(2 * sampled * size, 2 * size + ACTIVATION * sampled * (self.vocabulary + self.width))

    def _matrices(self, experts: float) -> int:
        attention = self.width * self.head_dim * (self._queries + 2 * self.kv_heads + self.heads)
        linear = self.linear.layers * self.linear.matrices(self.width) if self.linear else 0
        return self.attention_layers * attention + linear + self.layers * self._mlp_matrices(experts)

    def _mlp_matrices(self, experts: float) -> int:
        if self.experts is None:
            return 3 * self.width * self.mlp
        own = self.experts
        gates = own.count + (1 if own.shared_mlp else 0)
        return round(3 * self.width * (experts * own.mlp + own.shared_mlp)) + self.width * gates

    @property
    def _small(self) -> int:
        """Norms and biases."""
        bias = (self._queries + 2 * self.kv_heads) * self.head_dim if self.qkv_bias else 0
        normed = 2 * self.head_dim if self.qk_norm else 0
        linear = self.linear.layers * self.linear.small() if self.linear else 0
        return self.attention_layers * (bias + normed) + linear + self.layers * self.norms * self.width + self.width

    @property
    def _queries(self) -> int:
        return self.heads * (2 if self.gated_query else 1)

    @cached_property
    def _mlp_width(self) -> int:
        return self.mlp if self.experts is None else self.experts.active * self.experts.mlp + self.experts.shared_mlp

    @cached_property
    def _query_bytes(self) -> int:
        """Queries read and outputs written, of one token."""
        return 2 * ACTIVATION * self.attention_layers * self.heads * self.head_dim

    def _recurrence(self, tokens: float, sequences: float) -> Work:
        if self.linear is None:
            return Work(0, 0)
        own = self.linear
        flops = 8 * tokens * own.state  # decay, read, correct, write
        traffic = 2 * 4 * sequences * own.state + 2 * ACTIVATION * tokens * own.mixed
        return Work(own.layers * flops, own.layers * traffic)
