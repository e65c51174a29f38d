"""Exceptions as stored text, whatever they do when they are looked at."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.failure import (
    MAX_CAUSES,
    MAX_MESSAGE,
    MAX_TRACEBACK,
    describe,
    timed_out,
    worker_lost,
)
from runnerq.storage.records import ErrorInfo, ErrorKind


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")

    def __repr__(self) -> str:
        raise ValueError("no words")


class Falsy(Exception):
    def __bool__(self) -> bool:
        raise ValueError("neither")

    def __len__(self) -> int:
        return 0


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    def fail() -> None:
        raise error from cause

    try:
        fail()
    except BaseException as caught:  # noqa: BLE001 - any kind is described
        return caught
    raise AssertionError("nothing was raised")


def storable(info: ErrorInfo) -> bool:
    texts = (info.type, info.message, info.traceback, *info.causes)
    return all("\x00" not in text and text.encode("utf-8").decode() == text for text in texts)


def test_an_exception_is_its_type_its_message_and_its_traceback() -> None:
    info = describe(raised(KeyError("x")))
    assert (info.kind, info.type, info.message) == (ErrorKind.HANDLER, "KeyError", "'x'")
    assert "raise error from cause" in info.traceback
    assert info.causes == ()


def test_a_foreign_exception_is_named_with_its_module() -> None:
    assert describe(Mute()).type == f"{__name__}.Mute"


def test_an_exception_that_cannot_be_printed_is_described_all_the_same() -> None:
    info = describe(raised(Mute()))
    assert info.message == "(its message could not be made: ValueError)"
    assert info.traceback


def test_the_causes_are_told_nearest_first() -> None:
    info = describe(raised(KeyError("top"), raised(OSError("middle"), ValueError("bottom"))))
    assert info.causes == ("OSError: middle", "ValueError: bottom")


def test_a_context_is_a_cause_unless_it_was_suppressed() -> None:
    error = KeyError("second")
    error.__context__ = ValueError("first")
    assert describe(error).causes == ("ValueError: first",)
    error.__suppress_context__ = True
    assert describe(error).causes == ()


def test_causes_that_form_a_circle_are_told_once() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert describe(one).causes == ("ValueError: two",)


def test_a_cause_that_is_false_is_a_cause() -> None:
    info = describe(raised(ValueError("x"), Falsy("falsy")))
    assert info.causes == (f"{__name__}.Falsy: falsy",)


def test_no_more_than_so_many_causes_are_told() -> None:
    error = ValueError("0")
    for number in range(50):
        error = raised(ValueError(str(number)), error)  # pyright: ignore[reportAssignmentType]
    assert len(describe(error).causes) == MAX_CAUSES


def test_a_group_is_described_with_what_is_in_it() -> None:
    group = ExceptionGroup("several", [KeyError("a"), ExceptionGroup("inner", [OSError("b")])])
    info = describe(raised(group))
    assert info.type == "ExceptionGroup"
    assert info.message == "several (2 sub-exceptions)"
    assert "OSError: b" in info.traceback


def test_what_no_backend_stores_is_written_another_way() -> None:
    info = describe(raised(ValueError("nul \x00, half \ud800"), KeyError("\x00")))
    assert info.message == "nul \\x00, half \\ud800"
    assert storable(info)


def test_a_huge_message_is_cut() -> None:
    info = describe(raised(ValueError("x" * 50_000_000), ValueError("y" * 10_000)))
    assert len(info.message) <= MAX_MESSAGE + 1
    assert len(info.traceback) <= MAX_TRACEBACK + 21
    assert all(len(cause) < MAX_MESSAGE + 100 for cause in info.causes)


def test_a_deep_recursion_keeps_the_frames_nearest_to_the_fault() -> None:
    def fall(depth: int) -> int:
        return fall(depth + 1) + 1

    with pytest.raises(RecursionError) as caught:
        fall(0)
    info = describe(caught.value)
    assert len(info.traceback) <= MAX_TRACEBACK + 21
    assert "RecursionError" in info.traceback


def test_a_description_keeps_no_frame_alive() -> None:
    class Big:
        pass

    def fail() -> None:
        big = Big()
        seen.append(weakref.ref(big))
        raise ValueError("x")

    seen: list[weakref.ref[Big]] = []
    described: list[ErrorInfo] = []
    try:
        fail()
    except ValueError as error:
        described.append(describe(error))
    gc.collect()
    assert seen[0]() is None
    assert described[0].message == "x"


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(5), MemoryError()]
)
def test_exceptions_that_are_no_errors_are_described_too(error: BaseException) -> None:
    assert describe(raised(error)).type == type(error).__name__


@given(st.text(st.characters()))
def test_any_message_becomes_text_that_can_be_stored(message: str) -> None:
    assert storable(describe(raised(ValueError(message))))


def test_the_errors_of_the_engine_say_what_happened() -> None:
    assert timed_out(250).message == "the handler did not end within its timeout of 0.25 s"
    assert timed_out(250).kind is ErrorKind.TIMEOUT
    assert "attempt 3" in worker_lost(3).message
    assert worker_lost(3).kind is ErrorKind.WORKER_LOST
