"""The decorator: what it reads from a function, and what it refuses when it is applied."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec
import pytest
from tests.unit.sdk.odd import odd

from runnerq import ActivityContext, ActivityDefinition, ConfigurationError, RetryPolicy, activity
from runnerq.activity import definition_of
from runnerq.payload import PayloadMismatch
from runnerq.storage.records import Priority

if TYPE_CHECKING:
    from decimal import Decimal


class Order(msgspec.Struct):
    id: int


CONTEXT: Any = object()


def made(function: Any, **settings: Any) -> ActivityDefinition[Any, Any]:
    return odd(activity("work", **settings))(function)


def test_the_annotations_type_both_ends() -> None:
    @activity("work")
    async def work(order: Order) -> list[Order]:
        return [order]

    assert work.payload_decoder.decode(b'{"id": 1}', field="payload") == Order(id=1)
    assert work.result_decoder.decode(b'[{"id": 1}]', field="result") == [Order(id=1)]
    assert work.is_async


def test_a_definition_is_called_like_its_function() -> None:
    @activity("work")
    def double(value: int) -> int:
        return value * 2

    assert double(4) == 8
    assert double(value=4) == 8
    assert repr(double) == "<activity 'work'>"


def none() -> object:
    return ()


def payload_only(order: int) -> object:
    return order


def payload_and_context(order: int, ctx: ActivityContext) -> object:
    return order, ctx


def context_and_payload(context: ActivityContext, order: int) -> object:
    return order, context


def context_only(context: ActivityContext) -> object:
    return (context,)


unannotated: Any = eval("lambda order, ctx: (order, ctx)")  # noqa: S307 - no annotation to be seen


def optional_context(order: int, context: ActivityContext | None = None) -> object:
    return order, context


def annotated_context(order: int, context: Annotated[ActivityContext, "x"]) -> object:
    return order, context


def positional_only(order: int, context: ActivityContext, /) -> object:
    return order, context


def mixed(order: int, /, *, context: ActivityContext) -> object:
    return order, context


def keyword_only(*, order: int, context: ActivityContext) -> object:
    return order, context


def with_defaults(order: int = 3, other: str = "x") -> object:
    return order, other


def with_rest(order: int, *rest: int, **named: int) -> object:
    return order, rest, named


class CalledObject:
    def __call__(self, order: int, context: ActivityContext) -> object:
        return order, context


class Handler:
    def method(self, order: int, context: ActivityContext) -> object:
        return order, context

    @staticmethod
    def static(order: int, context: ActivityContext) -> object:
        return order, context


def three(scale: int, order: int, context: ActivityContext) -> object:
    return order * scale, context


SIGNATURES: list[tuple[Any, Any]] = [
    (none, ()),
    (payload_only, 5),
    (payload_and_context, (5, CONTEXT)),
    (context_and_payload, (5, CONTEXT)),
    (context_only, (CONTEXT,)),
    (unannotated, (5, CONTEXT)),
    (optional_context, (5, CONTEXT)),
    (annotated_context, (5, CONTEXT)),
    (positional_only, (5, CONTEXT)),
    (mixed, (5, CONTEXT)),
    (keyword_only, (5, CONTEXT)),
    (with_defaults, (5, "x")),
    (with_rest, (5, (), {})),
    (CalledObject(), (5, CONTEXT)),
    (Handler().method, (5, CONTEXT)),
    (odd(Handler.__dict__["static"]), (5, CONTEXT)),
    (functools.partial(three, 2), (10, CONTEXT)),
]


@pytest.mark.parametrize(("function", "given"), SIGNATURES)
def test_a_handler_is_given_what_its_signature_asks_for(function: Any, given: object) -> None:
    assert made(function).call(5, CONTEXT) == given


def test_the_rules_of_an_annotation_are_kept() -> None:
    def work(count: Annotated[int, msgspec.Meta(ge=1)]) -> None:
        del count

    with pytest.raises(PayloadMismatch, match=">= 1"):
        made(work).payload_decoder.decode(b"0", field="payload")


def test_a_handler_that_never_returns_may_say_so() -> None:
    def work() -> NoReturn:
        raise ValueError

    assert made(work).result_decoder.decode(b"5", field="result") == 5


def test_wrapped_functions_are_read_through_their_wrapper() -> None:
    @functools.wraps(payload_and_context)
    def wrapper(*args: Any, **kwargs: Any) -> object:
        return payload_and_context(*args, **kwargs)

    definition = made(wrapper)
    assert definition.call(5, CONTEXT) == (5, CONTEXT)
    with pytest.raises(PayloadMismatch):
        definition.payload_decoder.decode(b'"x"', field="payload")


def test_async_is_seen_through_partials_and_callable_objects() -> None:
    async def scaled(scale: int, order: int) -> int:
        return scale * order

    class Work:
        async def __call__(self, order: int) -> int:
            return order

    assert made(functools.partial(scaled, 2)).is_async
    assert made(Work()).is_async
    assert not made(payload_only).is_async


def test_the_settings_are_those_of_the_declaration() -> None:
    @activity("work", timeout=0.25, max_attempts=0, priority="HIGH", retry=RetryPolicy(jitter=True))
    def work(value: int) -> int:
        return value

    assert work.options.timeout_ms == 250
    assert work.options.max_attempts == 0
    assert work.options.priority is Priority.HIGH
    assert work.retry.jitter
    assert work.payload(1).options == work.options


def unknown_annotation(value: Decimal) -> None:
    del value


def too_many(first: int, second: int) -> None:
    del first, second


def two_contexts(first: ActivityContext, second: ActivityContext) -> None:
    del first, second


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


async def coroutine() -> None: ...


class Plain:
    pass


def plain_payload(value: Plain) -> None:
    del value


def plain_result() -> Plain:
    return Plain()


@pytest.mark.parametrize(
    ("function", "settings", "words"),
    [
        (unknown_annotation, {}, "'Decimal' is not known at run time"),
        (too_many, {}, "'second' would never be given"),
        (two_contexts, {}, "'second' would never be given"),
        (generator, {}, "the handler yields"),
        (async_generator, {}, "the handler yields"),
        (5, {}, "handler: 'work': 5 is no function"),
        (None, {}, "None is no function"),
        (made(payload_only), {}, "is the activity 'work' already"),
        (plain_payload, {}, "activity 'work', payload: cannot read"),
        (plain_result, {}, "activity 'work', result: cannot read"),
        (coroutine, {"cpu": True}, "cpu: 'work' is async"),
        (context_only, {"cpu": True}, "cpu: 'work' takes an ActivityContext"),
        (none, {"timeout": 0}, "timeout: 0 is too short"),
        (none, {"timeout": "5"}, "timeout: '5' is not a number"),
        (none, {"timeout": timedelta(days=10_000)}, "longer than ten years"),
        (none, {"max_attempts": -1}, "max_attempts: -1 is not within"),
        (none, {"max_attempts": 1.5}, "max_attempts: 1.5 is not a whole number"),
        (none, {"max_attempts": True}, "max_attempts: True is not a whole number"),
        (none, {"priority": "urgent"}, "priority: 'urgent' is none of"),
        (none, {"priority": True}, "priority: True is none of"),
        (none, {"priority": [1]}, "priority: [1] is none of"),
        (none, {"retry": 5}, "retry: 'work': 5 is not a RetryPolicy"),
        (none, {"on_failure": 5}, "on_failure: 'work': 5 is no function"),
        (none, {"on_dead_letter": "x"}, "on_dead_letter: 'work': 'x' is no function"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_with_the_reason(
    function: Any, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(function, **settings)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "send_*", None, 5])
def test_a_type_needs_a_name(name: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^activity_type: "):
        activity(odd(name))


def test_the_decorator_without_a_name_is_refused_where_it_stands() -> None:
    with pytest.raises(ConfigurationError, match="is not a type name"):
        activity(odd(payload_only))


class Mailer:
    def __init__(self) -> None:
        self.failures: list[object] = []

    async def handle(self, payload: int, ctx: ActivityContext) -> int:
        del ctx
        return payload

    async def on_failure(self, payload: object, ctx: ActivityContext, error: object) -> None:
        self.failures.append((payload, ctx, error))


def test_an_object_with_a_handle_method_is_a_handler() -> None:
    mailer = Mailer()
    definition = definition_of("mail", mailer)
    assert definition.is_async
    assert definition.on_failure == mailer.on_failure
    assert definition.on_dead_letter is None


def test_a_function_and_a_definition_are_handlers() -> None:
    assert definition_of("work", payload_only).call(5, None) == 5
    definition = made(payload_only)
    assert definition_of("work", definition) is definition


def test_a_definition_is_registered_under_its_own_type_only() -> None:
    with pytest.raises(
        ConfigurationError, match="'other' is registered with the handler of 'work'"
    ):
        definition_of("other", made(payload_only))


def test_what_is_no_handler_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^handler: "):
        definition_of("work", 5)
