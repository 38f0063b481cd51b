"""The pieces that stages are made of, each costed by itself, so that a gap in the tables is a gap of one piece.

A step of the language model is `rows` of all its tokens (`decode_rows` where no chunk is longer than a token: some
engines overlap more then), `prefill` per chunk, `decode` of all single tokens together, and `head` of what is sampled.
An encode batch is `positions` of all its items, `attention` within spans and within `windows`, and `merging`. In a
tensor-parallel group both exchange what they have: `exchange` and `joining`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from easerve.costs.hardware import PRECISIONS, Hardware
from easerve.costs.shapes.model import ModelShape
from easerve.costs.work import Rates, Work

Piece = Literal[
    "rows", "decode_rows", "prefill", "decode", "head", "exchange",
    "positions", "attention", "windows", "merging", "joining",
]  # fmt: skip
LANGUAGE: tuple[Piece, ...] = ("rows", "decode_rows", "prefill", "decode", "head", "exchange")
ENCODER: tuple[Piece, ...] = ("positions", "attention", "windows", "merging", "joining")
BETWEEN: tuple[Piece, ...] = ("exchange", "joining")  # devices: a matter of how a host connects them

Seconds = Callable[[float, float], float]  # of two sizes; the second is 0 where one says it all
WorkOf = Callable[[float, float], Work]


def works(shape: ModelShape, precision: str, tp: int) -> Mapping[Piece, WorkOf]:
    """What each piece takes of one device of a tensor-parallel group.

    Sizes: tokens; tokens; (new, context); (sequences, mean context); sampled tokens; tokens; positions;
    (spans, length); windows; embedding rows; positions. What goes between devices takes nothing of them.
    """
    language, encoder = shape.language, shape.encoder
    weight = PRECISIONS[precision]
    ways = encoder_ways(shape, tp)
    return {
        "rows": lambda tokens, _: language.rows(tokens, weight).split(tp),
        "decode_rows": lambda tokens, _: language.rows(tokens, weight).split(tp),
        "prefill": lambda new, context: language.prefill(new, context).split(tp),
        "decode": lambda sequences, context: language.decode(sequences, context).split(tp),
        "head": lambda sampled, _: language.head(sampled).split(tp),
        "exchange": lambda tokens, _: Work(0, 0),
        "positions": lambda positions, _: encoder.rows(positions).split(ways),
        "attention": lambda spans, length: encoder.attention(spans, length).split(ways),
        "windows": lambda windows, _: encoder.windows(windows).split(ways),
        "merging": lambda rows, _: encoder.merging(rows),
        "joining": lambda positions, _: Work(0, 0),
    }


def encoder_ways(shape: ModelShape, tp: int) -> int:
    """Among how many devices of the group the encoder is split; 1 where its heads do not divide: each has it whole."""
    own = shape.encoder
    return tp if own.heads % tp == 0 and own.mlp % tp == 0 else 1


def wanted(shape: ModelShape, tp: int) -> list[Piece]:
    """The pieces that there are."""
    absent: set[Piece] = set()
    if not shape.encoder.windowed:
        absent.add("windows")
    if tp == 1:
        absent.add("exchange")
    if encoder_ways(shape, tp) == 1:
        absent.add("joining")
    return [piece for piece in (*LANGUAGE, *ENCODER) if piece not in absent]


def rates(piece: Piece, hardware: Hardware, precision: str) -> Rates:
    """Only the matrices of layers are at the model's precision."""
    return hardware.rates(precision if piece in ("rows", "decode_rows") else "bf16")
