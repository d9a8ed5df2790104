"""Prices of models, from a file the operator keeps: dollars per million tokens."""

from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from adapters.settings import SettingsError
from domain.prices import Price, PriceTable


class _Price(BaseModel):
    model_config = ConfigDict(extra="forbid")

    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    cached_input: Decimal | None = Field(None, ge=0)


class _Prices(RootModel[dict[str, _Price]]):
    pass


def load_prices(file: Path | None) -> PriceTable:
    """Prices by model name; an absent file is an empty table. Raises SettingsError.

    The file: {"model-name": {"input": "0.20", "output": "0.80", "cached_input": "0.05"}}
    """
    if file is None:
        return {}
    try:
        prices = _Prices.model_validate_json(file.read_bytes()).root
    except (OSError, ValidationError) as error:
        raise SettingsError(f"VARVE_PRICES_FILE: {file}: {error}") from error
    return {
        name: Price(
            input=_micro(price.input),
            output=_micro(price.output),
            cached_input=_micro(price.input if price.cached_input is None else price.cached_input),
        )
        for name, price in prices.items()
    }


def _micro(dollars: Decimal) -> int:
    return int(dollars * 1_000_000)
