"""HTTP to servers of the tests, on this machine only."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

SECONDS = 10.0


class Refused(AssertionError):
    """An answer that is not 200; with what it says."""


@contextmanager
def answer(url: str, body: object = None, *, seconds: float = SECONDS) -> Generator[HTTPResponse]:
    """The answer to a GET, or to a POST of `body` as JSON, open as long as the block lasts.

    Raises Refused, or OSError when nobody listens.
    """
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=seconds)
    path = f"{parts.path or '/'}?{parts.query}"
    try:
        if body is None:
            connection.request("GET", path)
        else:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise Refused(f"{url}: {response.status} {response.read().decode()}")
        yield response
    finally:
        connection.close()


def text(url: str) -> str:
    with answer(url) as response:
        return response.read().decode()


def document(url: str, body: object = None) -> Any:
    """The JSON of an answer."""
    with answer(url, body) as response:
        return json.load(response)
