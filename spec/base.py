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
    ValidationError,
    WithJsonSchema,
)

T = TypeVar("T")


class Spec(BaseModel):
    """A frozen record in which an unknown key or a wrong type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong, in short: where, and what."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()


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


MOST_USD = 10**12
"""No budget is larger. Far below what exact amounts of 28 digits hold."""
_CENT = Decimal("0.01")


def shown(usd: Decimal) -> str:
    """Dollars for a person: four decimals, and more where less than a cent would read as nothing: four digits of it."""
    places = 4
    if usd and abs(usd) < _CENT:
        places = max(places, -int(Decimal(f"{usd:.3e}").normalize().as_tuple().exponent))
    return f"{usd:.{places}f}"


def _bounded(value: Decimal) -> Decimal:
    if value > MOST_USD:
        raise ValueError(f"{value} is more than a budget can be; give at most {MOST_USD}")
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
Budget = Annotated[Usd, Field(gt=0), AfterValidator(_bounded), WithJsonSchema(_MONEY)]
Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0), BeforeValidator(lambda v: float(v) if type(v) is int else v)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]
"""Lower-case letters, digits, dots and dashes: fits a host name, a tag value and a file name."""
