"""Quantities as fields of schemas: text and numbers in, units asked for, editors told."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from planner.quantities import Bytes, BytesPerSecond, Seconds
from planner.units import UnitError


class _Quantities(BaseModel):
    size: Bytes
    time: Seconds
    rate: BytesPerSecond


def test_fields_read_text_and_the_numbers_of_our_own_json() -> None:
    written = _Quantities.model_validate({"size": "1kB", "time": "1ms", "rate": "1kB/s"})
    assert written == _Quantities.model_validate({"size": 1000, "time": 0.001, "rate": 1000.0})
    assert _Quantities.model_validate_json(written.model_dump_json()) == written


def test_a_bad_field_carries_the_unit_error() -> None:
    with pytest.raises(ValidationError) as caught:
        _Quantities.model_validate({"size": "1", "time": "1ms", "rate": "1kB/s"})
    assert isinstance(caught.value.errors()[0]["ctx"]["error"], UnitError)


def test_editors_accept_a_variable_where_a_quantity_belongs() -> None:
    choices = _Quantities.model_json_schema()["properties"]["size"]["anyOf"]
    assert {"type": "string", "pattern": r"\$"} in choices
