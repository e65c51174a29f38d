"""Values that Postgres text could not hold, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.ids import IdSource
from runnerq.storage.postgres.values import (
    error_bytes,
    error_of,
    headers_bytes,
    headers_of,
    key_bytes,
    key_digest,
    key_of,
    outcome_digest,
)
from runnerq.storage.records import Acknowledgement, ErrorInfo, ErrorKind, OutcomeKind

_ids = IdSource()


def failed(message: str) -> ErrorInfo:
    return ErrorInfo(kind=ErrorKind.HANDLER, type="E", message=message, causes=("C: c",))


@given(st.text())
def test_errors_come_back_as_they_were(message: str) -> None:
    assert error_of(error_bytes(failed(message))) == failed(message)


def test_an_error_with_lone_surrogates_is_stored_readably() -> None:
    stored = error_of(error_bytes(failed("bad \ud800 text")))
    assert stored is not None
    assert stored.message == "bad \\ud800 text"


@given(st.text(st.characters(), max_size=50))
def test_keys_come_back_as_they_were(key: str) -> None:
    assert key_of(key_bytes(key)) == key


def test_different_keys_have_different_digests() -> None:
    keys = ["", "a", "a\x00", "\x00a", "A", "ä", "x" * 10_000, "x" * 9_999]
    assert len({key_digest(key_bytes(key)) for key in keys}) == len(keys)


@pytest.mark.parametrize("headers", [{}, {"a": "b"}, {"nul": "\x00", "": "ü"}])
def test_headers_come_back_as_they_were(headers: dict[str, str]) -> None:
    assert headers_of(headers_bytes(headers)) == headers


def test_an_outcome_is_known_again_by_its_content_and_not_by_how_long_it_ran() -> None:
    def retried(run_ms: int = 0, delay_ms: int = 0) -> Acknowledgement:
        return Acknowledgement(
            id=one,
            token=one,
            kind=OutcomeKind.RETRIED,
            error=failed("e"),
            run_ms=run_ms,
            delay_ms=delay_ms,
        )

    one = _ids.next()
    assert outcome_digest(retried(run_ms=1)) == outcome_digest(retried(run_ms=2))
    assert outcome_digest(retried()) != outcome_digest(retried(delay_ms=1))
