"""Field types that every spec shares."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    Strict,
    WithJsonSchema,
)

T = TypeVar("T")


class Spec(BaseModel):
    """A frozen record in which an unknown key or a wrong type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _decimal(value: Any) -> Any:
    """YAML and JSON carry numbers as int or float; money is exact, so a float is read as it was written."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    try:
        return Decimal(str(value))
    except ArithmeticError:
        raise ValueError(f"{value!r} is not an amount of dollars") from None


def _finite(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise ValueError(f"{value} is not an amount of dollars")
    return value


def plain(value: Decimal) -> str:
    """Dollars as text without an exponent."""
    return format(value, "f")


Seq = Annotated[tuple[T, ...], Strict(False)]
"""An immutable list, also written as a YAML list; its items stay strict. A function in its place would end JSON mode,
in which times are text."""

Some = Annotated[tuple[T, ...], Strict(False), Field(min_length=1)]
"""A list that holds at least one."""

_MONEY: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}]}

Usd = Annotated[
    Decimal,
    BeforeValidator(_decimal),
    AfterValidator(_finite),
    PlainSerializer(plain, return_type=str),
    WithJsonSchema(_MONEY),
]
"""US dollars, exact; text in JSON."""

Price = Annotated[Usd, Field(ge=0), WithJsonSchema(_MONEY)]
Budget = Annotated[Usd, Field(gt=0), WithJsonSchema(_MONEY)]
Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0), BeforeValidator(lambda v: float(v) if type(v) is int else v)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]
"""Lower-case letters, digits, dots and dashes: fits a host name, a tag value and a file name."""
