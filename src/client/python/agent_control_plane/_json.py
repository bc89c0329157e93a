"""Values that JSON can hold exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2

#: Maximum levels that the control plane accepts.
_MAX_DEPTH = 64
#: The control plane reads JSON numbers as doubles, which cannot hold every integer beyond this.
_MAX_INTEGER = 2**53


def copy_json(value: Any, path: str, depth: int = 0) -> Any:
    """Copies a JSON value. For anything else raises a `TypeError` or `ValueError` that names its place.

    Nothing is rounded or converted: the rules see exactly the values with which the function runs.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"`{path}` is more than {_MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return _copy_number(value, path)
    if isinstance(value, Mapping):
        return {_name(key, path): copy_json(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise TypeError(f"`{path}` has the type {type(value).__name__}, which is not JSON; convert it in `to_arguments`")


def _copy_number(value: float, path: str) -> float:
    if isinstance(value, int):
        if abs(value) > _MAX_INTEGER:
            raise ValueError(f"`{path}` is an integer beyond 2^53, which JSON numbers cannot hold exactly; pass it as text")
        return int(value)
    if not math.isfinite(value):
        raise ValueError(f"`{path}` is {value}, which is not a JSON number")
    return float(value)


def _name(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"`{path}` has the key {key!r}, but names in JSON are text")
    return str.__str__(key)


def json_text(value: Any) -> str:
    """Writes a value as JSON without blanks, with its members in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def is_same_json(one: Any, other: Any) -> bool:
    """Compares JSON values. The order of members does not count, and `1` equals `1.0`."""
    return json.dumps(_comparable(one), sort_keys=True) == json.dumps(_comparable(other), sort_keys=True)


def _comparable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def struct_from(value: Mapping[str, Any]) -> struct_pb2.Struct:
    """Converts a JSON object to its message."""
    struct = struct_pb2.Struct()
    struct.update(value)
    return struct


def json_from(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Converts a message back to its JSON object. Numbers without a fraction become integers."""
    return {name: _json_value(value) for name, value in struct.fields.items()}


def _json_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return json_from(value.struct_value)
    if kind == "list_value":
        return [_json_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) <= _MAX_INTEGER else number
    return None if kind in (None, "null_value") else getattr(value, kind)
