"""ActivityHandlerRegistry: which types a process can run, and how they are found in an app."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from runnerq.activity import ActivityDefinition, definition_of
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ActivityHandlerRegistry:
    """Definitions by type name. One handler per type: a second one is an error, not a replacement."""

    def __init__(self, activities: Iterable[ActivityDefinition[Any, Any]] = ()) -> None:
        self._definitions: dict[str, ActivityDefinition[Any, Any]] = {}
        for item in activities:
            self.add(item)

    def add(self, definition: ActivityDefinition[Any, Any]) -> None:
        known = self._definitions.setdefault(definition.type, definition)
        if known is not definition:
            raise ConfigurationError(
                f"two handlers for {definition.type!r}: {_where(known)} and {_where(definition)}",
                field="activities",
            )

    def register(self, activity_type: str, handler: object) -> None:
        """Add an activity, an ActivityHandler object or a function under a type name."""
        self.add(definition_of(activity_type, handler))

    def get(self, activity_type: str) -> ActivityDefinition[Any, Any] | None:
        return self._definitions.get(activity_type)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(sorted(self._definitions))

    def __iter__(self) -> Iterator[ActivityDefinition[Any, Any]]:
        return iter(self._definitions.values())

    def __len__(self) -> int:
        return len(self._definitions)


def load_activities(app: str) -> ActivityHandlerRegistry:
    """What `app` declares: `module` (every activity among its attributes), `module:name` (a registry,
    an activity, or a list of activities), or several of them separated by commas.

    Raises ConfigurationError naming the part that cannot be used.
    """
    registry = ActivityHandlerRegistry()
    for part in (piece.strip() for piece in app.split(",")):
        if not part:
            raise ConfigurationError(f"{app!r} has an empty part", field="app")
        for definition in _load(part):
            registry.add(definition)
    return registry


def _load(part: str) -> list[ActivityDefinition[Any, Any]]:
    module_name, colon, attribute = part.partition(":")
    if not module_name or module_name.startswith(".") or (colon and not attribute):
        raise ConfigurationError(f"{part!r} is neither module nor module:name", field="app")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{module_name!r} imports {error.name!r}, which is not installed", field="app"
            ) from error
        raise ConfigurationError(
            f"there is no module {module_name!r}; is it installed or on PYTHONPATH?", field="app"
        ) from error
    if not attribute:
        found = _in_module(module)
    elif not hasattr(module, attribute):
        raise ConfigurationError(f"{module_name!r} has no attribute {attribute!r}", field="app")
    else:
        found = _in_value(part, getattr(module, attribute))
    if not found:
        raise ConfigurationError(
            f"{part!r} declares no activities; decorate a function with @activity(...)",
            field="app",
        )
    return found


def _in_module(module: ModuleType) -> list[ActivityDefinition[Any, Any]]:
    # An activity imported under two names is still one.
    unique = {id(value): value for value in vars(module).values()}
    return [
        cast("ActivityDefinition[Any, Any]", value)
        for value in unique.values()
        if isinstance(value, ActivityDefinition)
    ]


def _in_value(part: str, value: object) -> list[ActivityDefinition[Any, Any]]:
    kind = type(value).__name__
    if isinstance(value, ActivityDefinition):
        return [cast("ActivityDefinition[Any, Any]", value)]
    if isinstance(value, ActivityHandlerRegistry):
        return list(value)
    if isinstance(value, list | tuple):
        items = list(cast("Iterable[object]", value))
        if all(isinstance(item, ActivityDefinition) for item in items):
            return cast("list[ActivityDefinition[Any, Any]]", items)
    raise ConfigurationError(
        f"{part!r} is a {kind}; expected an ActivityHandlerRegistry, an activity or "
        "a list of activities",
        field="app",
    )


def _where(definition: ActivityDefinition[Any, Any]) -> str:
    function = definition.function
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
