"""What a stage gets of a device that it shares.

SMs (or cores) can be parted, memory cannot. A stage that has a part of the SMs computes that much slower; it draws the
whole memory bandwidth with far fewer than all SMs, but has to leave some to the stage beside it. So a compute-bound
stage slows down as its share shrinks, and one that is bound by bandwidth (decode) hardly. Where both stages claim more
than there is (no partition), SMs go to each by its claim, and getting in each other's way costs a little on top.

The form is derived here. The constants are assumptions until they are measured on a GPU: SATURATING from decode kernels
needing about half of the SMs for full bandwidth; DRAWN because prefill and encode at their usual sizes keep memory
busy for about a quarter of the time; INTERFERENCE for what they lose in caches and waiting when their blocks mix.
"""

from __future__ import annotations

from dataclasses import dataclass

SATURATING = 0.5
DRAWN = 0.25
INTERFERENCE = 0.1


@dataclass(frozen=True)
class Contention:
    """`saturating`: the part of the SMs that draws the whole bandwidth. `drawn`: the part of the bandwidth that a stage
    on all SMs takes from the other. `interference`: what arithmetic loses on top when both claim the whole device."""

    saturating: float = SATURATING
    drawn: float = DRAWN
    interference: float = INTERFERENCE

    def left(self, share: float, beside: float) -> tuple[float, float]:
        """What is left of a device's arithmetic and of its bandwidth, as parts, for a stage that has `share` of it
        (0, 1] while another keeps `beside` busy. Raises ValueError for shares that there are not."""
        if not 0 < share <= 1 or beside < 0:
            raise ValueError(f"a share is in (0, 1], what is beside it at least 0; not {share} and {beside}")
        claims = share + beside
        own, other = (share, beside) if claims <= 1 else (share / claims, beside / claims)
        mixing = 1 + self.interference * max(0.0, claims - 1) * beside
        return own / mixing, min(1.0, own / self.saturating) * (1 - self.drawn * other)
