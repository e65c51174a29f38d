"""From a typed model to the structural OpenAPI schema that Kubernetes asks for.

Pure. Every string and list must come out with an upper bound (the API server refuses CEL rules whose
cost it cannot bound), and every level whose fields all have defaults gets its complete default: without
one the API server does not look at the defaults below it, and it judges a default by the CEL rules
before it fills in those below.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import inspect

from runnerq_operator.model.rules import Model, Rule

Schema = dict[str, Any]

_BOUNDS = {"ge": "minimum", "le": "maximum"}
_SIZES = {"min_length": "minItems", "max_length": "maxItems"}
_LENGTHS = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}


def schema_of(model: type[Model]) -> Schema:
    """The structural schema of a model.

    Raises TypeError for a shape that the schema could not say (a union, an unbounded string).
    """
    return _schema(inspect.type_info(model), model.__name__)


def _schema(kind: inspect.Type, where: str) -> Schema:
    match kind:
        case inspect.Metadata():
            return _annotated(kind, where)
        case inspect.StructType():
            return _object(kind, where)
        case inspect.VarTupleType():
            return _list(kind, where)
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case inspect.UnionType():
            return _optional(kind, where)
        case _:
            return _scalar(kind, where)


def _scalar(kind: inspect.Type, where: str) -> Schema:
    match kind:
        case inspect.IntType():
            return {"type": "integer", "format": "int64", **_picked(kind, _BOUNDS)}
        case inspect.StrType():
            if kind.max_length is None:
                raise TypeError(f"{where}: a string without an upper bound")
            return {"type": "string", **_picked(kind, _LENGTHS)}
        case inspect.EnumType():
            return {"type": "string", "enum": [member.value for member in kind.cls]}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case _:
            raise TypeError(f"{where}: no schema for {type(kind).__name__}")


def _list(kind: inspect.VarTupleType, where: str) -> Schema:
    if kind.max_length is None:
        raise TypeError(f"{where}: a list without an upper bound")
    items = _schema(kind.item_type, f"{where}[]")
    return {"type": "array", **_picked(kind, _SIZES), "items": items}


def _annotated(kind: inspect.Metadata, where: str) -> Schema:
    untyped = cast("Any", kind)
    documented: Schema = untyped.extra_json_schema or {}
    said: Schema = {}
    if documented.get("description"):
        said["description"] = documented["description"]
    extensions: Schema = untyped.extra or {}
    return {**said, **_schema(kind.type, where), **extensions}


def _optional(kind: inspect.UnionType, where: str) -> Schema:
    """`X | None`: absent is None, so the schema is that of X."""
    present = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
    if len(present) != 1:
        raise TypeError(f"{where}: a union of several types")
    return _schema(present[0], where)


def _object(kind: inspect.StructType, where: str) -> Schema:
    model = cast("type[Model]", kind.cls)
    properties: Schema = {}
    for entry in kind.fields:
        name = entry.encode_name
        said = _schema(entry.type, f"{where}.{name}")
        default = _default(entry)
        if default is not None:
            said["default"] = default
        properties[name] = said
    schema: Schema = {"type": "object", "properties": properties}
    required = [entry.encode_name for entry in kind.fields if entry.required]
    if required:
        schema["required"] = required
    rules = cast("tuple[Rule, ...]", getattr(model, "RULES", ()))
    if rules:
        schema["x-kubernetes-validations"] = [_rule(rule) for rule in rules]
    return schema


def _default(entry: inspect.Field) -> Any:
    """What the API server fills in; None for nothing. Empty lists, maps and strings are left absent."""
    if entry.default is msgspec.NODEFAULT:
        return None
    return _complete(entry.default)


def _complete(value: Any) -> Any:
    """A default with the defaults of everything below it; None for what stays absent."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        inner = {field.encode_name: _complete(getattr(value, field.name)) for field in fields}
        return {name: default for name, default in inner.items() if default is not None}
    built = msgspec.to_builtins(value)
    return None if built in ("", (), [], {}) else built


def _rule(rule: Rule) -> Schema:
    said: Schema = {"rule": rule.rule, "message": rule.message}
    if rule.message_expression:
        said["messageExpression"] = rule.message_expression
    if rule.field:
        said["fieldPath"] = rule.field
    return said


def _picked(kind: object, names: dict[str, str]) -> Schema:
    values = {said: getattr(kind, own) for own, said in names.items()}
    return {said: value for said, value in values.items() if value is not None}
