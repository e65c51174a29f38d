"""What travels between processes, and what one statement may carry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runnerq.storage.postgres.notifier import lines_of, packed
from runnerq.storage.postgres.portions import portions

LIMIT = 8_000
lines = st.text(
    st.characters(blacklist_characters="\n", blacklist_categories=("Cs",)), min_size=1, max_size=600
)


@given(st.lists(st.tuples(st.sampled_from(["work", "ended"]), lines), max_size=200))
def test_every_item_arrives_once_in_payloads_that_postgres_takes(
    items: list[tuple[str, str]],
) -> None:
    payloads = packed("tag", items)
    assert all(len(text.encode()) < LIMIT for _, text in payloads)
    arrived = [
        (channel, line)
        for channel, text in payloads
        for tag, found in [lines_of(text)]
        if tag == "tag"
        for line in found
    ]
    for channel in ("work", "ended"):
        assert [one for one in arrived if one[0] == channel] == [
            one for one in items if one[0] == channel
        ]


@given(st.lists(st.integers(0, 50)), st.integers(1, 10), st.integers(1, 60))
def test_portions_keep_order_and_limits(sizes: list[int], most: int, most_bytes: int) -> None:
    split = list(portions(sizes, lambda size: size, most=most, most_bytes=most_bytes))
    assert [size for portion in split for size in portion] == sizes
    for portion in split:
        assert 1 <= len(portion) <= most
        assert sum(portion) <= most_bytes or len(portion) == 1
