"""The JSON that REST, the stream and the command line share."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from runnerq.documents import (
    LIST_VALUE_BYTES,
    Document,
    encode,
    event_document,
    result_document,
    snapshot_document,
)
from runnerq.storage.records import (
    ActivityEvent,
    ActivityResult,
    ActivitySnapshot,
    ActivityState,
    ErrorInfo,
    ErrorKind,
    EventKind,
    Priority,
)

AT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
ID = UUID("01900000-0000-7000-8000-000000000001")
ERROR = ErrorInfo(
    kind=ErrorKind.HANDLER,
    type="ValueError",
    message="m" * 5_000,
    traceback="Traceback",
    causes=("KeyError: 'x'",),
)


def snapshot(**fields: Any) -> ActivitySnapshot:
    values: dict[str, Any] = {
        "id": ID,
        "queue": "q",
        "type": "send",
        "status": ActivityState.PENDING,
        "priority": Priority.HIGH,
        "payload": b"{}",
        "codec": "json",
        "attempt": 0,
        "max_attempts": 3,
        "timeout_ms": 1_000,
        "created_at": AT,
        "ready_at": AT,
        **fields,
    }
    return ActivitySnapshot(**values)


def written(document: Document) -> Any:
    return json.loads(encode(document))


@pytest.mark.parametrize(
    "stored",
    [
        b"9007199254740993",
        b'{"n":123456789012345678901234567890}',
        b"[1.50,1e3,-0.0,1.0000000000000000000001]",
        b'{"b":1,"a":2}',
        b'"<script>"',
        b'{ "spaced" : [ ] }',
    ],
)
def test_stored_json_keeps_every_byte(stored: bytes) -> None:
    text = encode(snapshot_document(snapshot(payload=stored)))
    assert b'"payload":' + stored + b"," in text


@pytest.mark.parametrize(
    "stored",
    [b"", b"{", b"\xff\xfe", b'{"a":1} {"b":2}', b'"},"status":"completed', b"NaN", b"[" * 5_000],
)
def test_stored_bytes_that_are_not_json_cannot_break_the_answer(stored: bytes) -> None:
    document = written(snapshot_document(snapshot(payload=stored)))
    assert document["status"] == "pending"
    assert document["payload_encoding"] == "base64"
    assert base64.b64decode(document["payload"]) == stored


def test_another_codec_is_sent_as_base64_with_its_name() -> None:
    document = written(snapshot_document(snapshot(payload=b"\x00\x01", codec="pickle5")))
    assert document["payload_codec"] == "pickle5"
    assert base64.b64decode(document["payload"]) == b"\x00\x01"


def test_a_null_result_is_not_a_missing_one() -> None:
    null = written(snapshot_document(snapshot(result=b"null")))
    assert (null["result"], null["result_encoding"], null["result_bytes"]) == (None, "json", 4)
    missing = written(snapshot_document(snapshot()))
    assert (missing["result"], missing["result_encoding"]) == (None, None)


def test_a_list_leaves_out_what_is_large_and_says_so() -> None:
    large = b'"' + b"x" * LIST_VALUE_BYTES + b'"'
    document = written(snapshot_document(snapshot(payload=large, error=ERROR), whole=False))
    assert document["payload"] is None
    assert document["payload_encoding"] == "omitted"
    assert document["payload_bytes"] == len(large)
    assert "traceback" not in document["error"]
    assert len(document["error"]["message"]) == LIST_VALUE_BYTES


def test_the_whole_activity_has_the_whole_error() -> None:
    error = written(snapshot_document(snapshot(error=ERROR)))["error"]
    assert error["traceback"] == "Traceback"
    assert error["causes"] == ["KeyError: 'x'"]
    assert len(error["message"]) == 5_000


def test_words_are_snake_case_and_the_state_is_called_status() -> None:
    document = written(snapshot_document(snapshot(status=ActivityState.DEAD_LETTER)))
    assert document["status"] == "dead_letter"
    assert document["priority"] == "high"
    assert document["created_at"] == "2026-03-01T12:30:15.250000Z"
    assert all(key == key.lower() and " " not in key for key in document)


def test_a_result_has_the_shape_of_its_activity() -> None:
    ended = ActivityResult(
        id=ID, state=ActivityState.COMPLETED, result=b"9007199254740993", finished_at=AT
    )
    text = encode(result_document(ended))
    assert b'"result":9007199254740993' in text
    assert b'"finished":true' in text


def test_a_streamed_event_has_no_traceback() -> None:
    event = ActivityEvent(activity_id=ID, kind=EventKind.FAILED, at=AT, error=ERROR)
    assert "traceback" not in written(event_document(event, whole=False))["error"]
    assert written(event_document(event))["error"]["traceback"] == "Traceback"
    assert written(event_document(event))["status"] is None
