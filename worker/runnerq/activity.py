"""Declaring activities: the decorator, what it makes, and the handler protocol.

A definition holds everything static about a type: how its payload is read, how its handler is called,
its limits. It is immutable and knows no backend.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Never,
    NoReturn,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
    overload,
    runtime_checkable,
)

from runnerq.builder import ActivityBuilder, ActivityOptions
from runnerq.context import ActivityContext
from runnerq.durations import Duration, milliseconds
from runnerq.errors import ConfigurationError, InvalidActivity
from runnerq.patterns import check_type_name
from runnerq.payload import Decoder
from runnerq.retry import RetryPolicy
from runnerq.storage.records import ErrorInfo, Priority

if TYPE_CHECKING:
    from runnerq.builder import PriorityLike

P = TypeVar("P")
R = TypeVar("R")

EndCallback = Callable[[Any, ActivityContext, ErrorInfo], Awaitable[None] | None]
"""Called with the payload (raw JSON value if it does not decode), the context and the last error."""

DEFAULT_TIMEOUT = timedelta(seconds=300)
DEFAULT_MAX_ATTEMPTS = 3


@runtime_checkable
class ActivityHandler(Protocol):
    """A handler as an object, for `register_activity`. `handle` may be async or plain; the methods
    `on_failure` and `on_dead_letter` (payload, ctx, error) are used when they are there."""

    def handle(self, payload: Any, ctx: ActivityContext) -> Any: ...


class ActivityDefinition(Generic[P, R]):
    """An activity type with its handler. Calling it calls the plain function, for unit tests."""

    def __init__(
        self,
        activity_type: str,
        function: Callable[..., Any],
        *,
        timeout: Duration = DEFAULT_TIMEOUT,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        priority: PriorityLike = Priority.NORMAL,
        retry: RetryPolicy | None = None,
        cpu: bool = False,
        on_failure: EndCallback | None = None,
        on_dead_letter: EndCallback | None = None,
    ) -> None:
        check_type_name(activity_type, field="activity_type")
        self.type = activity_type
        self.function = function
        self.retry = retry if retry is not None else RetryPolicy()
        self.cpu = cpu
        self.on_failure = on_failure
        self.on_dead_letter = on_dead_letter
        _check_handler(activity_type, function)
        for name, callback in (("on_failure", on_failure), ("on_dead_letter", on_dead_letter)):
            if callback is not None and not callable(callback):
                raise ConfigurationError(
                    f"{activity_type!r}: {callback!r} is no function", field=name
                )
        if not isinstance(self.retry, RetryPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"{activity_type!r}: {retry!r} is not a RetryPolicy", field="retry"
            )
        self.is_async = inspect.iscoroutinefunction(_annotated(function))
        try:
            self.options = ActivityOptions(
                priority=ActivityOptions.parse_priority(priority),
                max_attempts=ActivityOptions.check_attempts(max_attempts),
                timeout_ms=milliseconds(timeout, field="timeout", at_least_ms=1),
            )
        except InvalidActivity as error:
            raise ConfigurationError(f"activity {activity_type!r}: {error}") from error
        if cpu and self.is_async:
            raise ConfigurationError(
                f"{activity_type!r} is async; a CPU-bound handler is a plain function", field="cpu"
            )
        signature = _read_signature(activity_type, function)
        self.context_parameter = signature.context
        self._positional, self._named = signature.positional, signature.named
        if cpu and self.context_parameter is not None:
            raise ConfigurationError(
                f"{activity_type!r} takes an ActivityContext, which cannot cross into another "
                "process; take only the payload",
                field="cpu",
            )
        self.payload_decoder = _decoder(activity_type, "payload", signature.payload_type)
        self.result_decoder = _decoder(activity_type, "result", signature.result_type)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<activity {self.type!r}>"

    def payload(self, value: P) -> ActivityBuilder[R]:
        """A builder without an executor: hand it to `execute_many`, or `.on(executor)`."""
        builder: ActivityBuilder[R] = ActivityBuilder(
            type=self.type, options=self.options, decoder=self.result_decoder
        )
        return builder.payload(value)

    def call(self, payload: Any, ctx: ActivityContext | None) -> Any:
        """Call the handler with the arguments it declares."""
        given = {_PAYLOAD: payload, _CONTEXT: ctx}
        return self.function(
            *[given[role] for role in self._positional],
            **{name: given[role] for name, role in self._named.items()},
        )


class _Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[[P, ActivityContext], Awaitable[R]]
    ) -> ActivityDefinition[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], Awaitable[R]]) -> ActivityDefinition[P, R]: ...
    @overload
    def __call__(self, function: Callable[[], Awaitable[R]]) -> ActivityDefinition[None, R]: ...
    @overload
    def __call__(self, function: Callable[[P, ActivityContext], R]) -> ActivityDefinition[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], R]) -> ActivityDefinition[P, R]: ...
    @overload
    def __call__(self, function: Callable[[], R]) -> ActivityDefinition[None, R]: ...


def activity(
    activity_type: str,
    *,
    timeout: Duration = DEFAULT_TIMEOUT,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    priority: PriorityLike = Priority.NORMAL,
    retry: RetryPolicy | None = None,
    cpu: bool = False,
    on_failure: EndCallback | None = None,
    on_dead_letter: EndCallback | None = None,
) -> _Decorator:
    """Declare the handler of an activity type.

    The function takes the payload and, if it wants it, an `ActivityContext`; its annotations type
    both ends. `async def` runs on the loop, `def` in a thread, `def` with `cpu=True` in a process.

    - `timeout`: seconds or timedelta, for one attempt.
    - `max_attempts`: runs in all; 1 = no retry, 0 = no limit.
    - `retry`: how long to wait between attempts (default 2, 4, 8 s ... at most an hour).
    - `on_failure`, `on_dead_letter`: called once the activity has ended so.

    Raises ConfigurationError for a declaration that cannot work.

        @activity("send_email", timeout=30, max_attempts=5)
        async def send_email(email: Email, ctx: ActivityContext) -> Receipt: ...
    """
    check_type_name(activity_type, field="activity_type")  # also `@activity` without a name

    def decorate(function: Callable[..., Any]) -> ActivityDefinition[Any, Any]:
        return ActivityDefinition(
            activity_type,
            function,
            timeout=timeout,
            max_attempts=max_attempts,
            priority=priority,
            retry=retry,
            cpu=cpu,
            on_failure=on_failure,
            on_dead_letter=on_dead_letter,
        )

    return cast("_Decorator", decorate)


def _decoder(activity_type: str, end: str, value_type: Any) -> Decoder[Any]:
    try:
        return Decoder(value_type)
    except ConfigurationError as error:
        raise ConfigurationError(f"activity {activity_type!r}, {end}: {error}") from error


def definition_of(activity_type: str, handler: object) -> ActivityDefinition[Any, Any]:
    """A definition from what `register_activity` accepts: one made by the decorator, an
    `ActivityHandler` object, or a function."""
    if isinstance(handler, ActivityDefinition):
        found = cast("ActivityDefinition[Any, Any]", handler)
        if found.type != activity_type:
            raise ConfigurationError(
                f"{activity_type!r} is registered with the handler of {found.type!r}",
                field="activity_type",
            )
        return found
    if isinstance(handler, ActivityHandler):
        return ActivityDefinition(
            activity_type,
            handler.handle,
            on_failure=getattr(handler, "on_failure", None),
            on_dead_letter=getattr(handler, "on_dead_letter", None),
        )
    if callable(handler):
        return ActivityDefinition(activity_type, cast("Callable[..., Any]", handler))
    raise ConfigurationError(
        f"{handler!r} is neither an activity, an ActivityHandler nor a function", field="handler"
    )


_PAYLOAD, _CONTEXT = "payload", "context"


class _Signature:
    def __init__(self) -> None:
        self.context: str | None = None
        self.payload_type: Any = Any
        self.result_type: Any = Any
        self.positional: list[str] = []
        """What the positional-only parameters are given: payload or context."""
        self.named: dict[str, str] = {}
        """What the others are given, by name."""


def _check_handler(activity_type: str, function: object) -> None:
    if isinstance(function, ActivityDefinition):
        raise ConfigurationError(
            f"{activity_type!r}: the handler is the activity {function.type!r} already",
            field="handler",
        )
    if not callable(function):
        raise ConfigurationError(f"{activity_type!r}: {function!r} is no function", field="handler")
    target = _annotated(function)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise ConfigurationError(
            f"{activity_type!r}: the handler yields; an activity returns one result",
            field="handler",
        )


def _annotated(function: Any) -> Any:
    """The function behind a partial, or behind an object that is called like one."""
    while isinstance(function, functools.partial | staticmethod):
        partial = cast("functools.partial[Any] | staticmethod[..., Any]", function)
        function = partial.func if isinstance(partial, functools.partial) else partial.__func__
    return function if inspect.isroutine(function) else type(function).__call__


def _read_signature(activity_type: str, function: Callable[..., Any]) -> _Signature:
    """Which parameter is the payload and which the context, and their types."""
    try:
        # With extras: `Annotated[int, Meta(ge=1)]` is a rule for the payload.
        hints = get_type_hints(_annotated(function), include_extras=True)
        parameters = inspect.signature(function).parameters
    except NameError as error:
        raise ConfigurationError(
            f"activity {activity_type!r}: the annotation {error.name!r} is not known at run time; "
            "import it outside `if TYPE_CHECKING`, or define it at module level"
        ) from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"activity {activity_type!r}: the handler's signature cannot be read: {error}"
        ) from error
    read = _Signature()
    result_type = hints.get("return", Any)
    read.result_type = Any if result_type in (NoReturn, Never) else result_type
    payload_name: str | None = None
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint = hints.get(name, Any)
        is_context = hint is ActivityContext or ActivityContext in get_args(hint)
        if is_context or (name == "ctx" and hint is Any):
            role, taken = _CONTEXT, read.context
            read.context = read.context or name
        else:
            role, taken = _PAYLOAD, payload_name
            payload_name = payload_name or name
            read.payload_type = hint if taken is None else read.payload_type
        if taken is not None:
            if parameter.default is parameter.empty:
                raise ConfigurationError(
                    f"activity {activity_type!r}: the handler takes more than a payload and a "
                    f"context; {name!r} would never be given"
                )
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            read.positional.append(role)
        else:
            read.named[name] = role
    return read
