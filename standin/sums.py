"""Arithmetic and dates that the stand-in can really answer. Pure and bounded."""

import ast
import operator
import re
from collections.abc import Callable
from datetime import date
from fractions import Fraction

_LONGEST = 200
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_SUM = re.compile(r"[-+(\s]*\d[\d\s.()%*/×÷+-]*")
_DATE = re.compile(r"(\d{4})\s*[-/年]\s*(\d{1,2})\s*[-/月]\s*(\d{1,2})")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WEEKDAYS_ZH = "一二三四五六日"


def calculate(text: str) -> str | None:
    """`expression = value` for the first sum in a text; None if there is none that works out."""
    for found in _SUM.finditer(text):
        expression = found[0].strip().rstrip("+-*/×÷%.(").strip()
        if len(expression) > _LONGEST or not re.search(r"\d\s*[%*/×÷+-]", expression):
            continue
        try:
            tree = ast.parse(expression.replace("×", "*").replace("÷", "/"), mode="eval")
            return f"{expression} = {_shown(_value(tree.body))}"
        except (SyntaxError, ValueError, ZeroDivisionError):
            continue
    return None


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case _:
            raise ValueError("not a sum")


def _shown(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.10g}"


def about_dates(text: str, *, chinese: bool) -> str | None:
    """The weekday of the date in a text, or the days between two; None if it names no date."""
    days = [day for found in _DATE.finditer(text) if (day := _date(*found.groups())) is not None]
    if not days:
        return None
    if len(days) == 1:
        day = days[0]
        if chinese:
            return f"{day.isoformat()} 是星期{_WEEKDAYS_ZH[day.weekday()]}。"
        return f"{day.isoformat()} is a {_WEEKDAYS[day.weekday()]}."
    count = abs((days[1] - days[0]).days)
    if chinese:
        return f"{days[0].isoformat()} 与 {days[1].isoformat()} 相差 {count} 天。"
    return f"Between {days[0].isoformat()} and {days[1].isoformat()} there are {count} days."


def _date(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
