"""What model calls cost. Pure; integers of a millionth of a US dollar, never floats."""

from collections.abc import Mapping
from dataclasses import dataclass

from domain.messages import Usage


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars per million tokens, which is dollars per token times 10^12."""

    input: int
    output: int
    cached_input: int


PriceTable = Mapping[str, Price]
"""By model name. A model without a price costs nothing as far as we can tell."""


def cost_micro_usd(usage: Usage, price: Price | None) -> int:
    """Rounded up, so that a limit is never overrun by rounding."""
    if price is None:
        return 0
    fresh = max(usage.input_tokens - usage.cached_tokens, 0)
    total = (
        fresh * price.input
        + usage.cached_tokens * price.cached_input
        + usage.output_tokens * price.output
    )
    return -(-total // 1_000_000)
