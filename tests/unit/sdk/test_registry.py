"""Which types a process can run, and how an app declares them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from runnerq import ActivityHandlerRegistry, ConfigurationError, activity, load_activities

if TYPE_CHECKING:
    from pathlib import Path

APP = """
from runnerq import ActivityHandlerRegistry, activity

@activity("{prefix}.one")
def one(value: int) -> int:
    return value

@activity("{prefix}.two")
async def two() -> None: ...

again = one
registry = ActivityHandlerRegistry([one])
several = [one, two]
number = 5
"""


@pytest.fixture(autouse=True)
def apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importable modules rq_shop and rq_shop_mail, rq_empty, and two that do not import."""
    for name in ("rq_shop", "rq_shop_mail"):
        (tmp_path / f"{name}.py").write_text(APP.format(prefix=name))
    (tmp_path / "rq_empty.py").write_text("x = 1\n")
    (tmp_path / "rq_lacking.py").write_text("import rq_not_installed\n")
    (tmp_path / "rq_lacking_prefix.py").write_text("import rq_lacking_pre\n")
    (tmp_path / "rq_wrong.py").write_text("1/0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in sys.modules if name.startswith("rq_")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("app", "types"),
    [
        ("rq_shop", ("rq_shop.one", "rq_shop.two")),
        ("rq_shop:registry", ("rq_shop.one",)),
        ("rq_shop:several", ("rq_shop.one", "rq_shop.two")),
        ("rq_shop:two", ("rq_shop.two",)),
        (" rq_shop:one , rq_shop_mail:one ", ("rq_shop.one", "rq_shop_mail.one")),
        ("rq_shop,rq_shop:one", ("rq_shop.one", "rq_shop.two")),
    ],
)
def test_an_app_is_a_module_or_something_in_it_or_several(app: str, types: object) -> None:
    assert load_activities(app).types == types


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("", "has an empty part"),
        ("rq_shop,", "has an empty part"),
        ("rq_shop:", "neither module nor module:name"),
        (":one", "neither module nor module:name"),
        (".rq_shop", "neither module nor module:name"),
        ("rq_missing", "there is no module 'rq_missing'"),
        ("rq_shop.inner", "there is no module 'rq_shop.inner'"),
        ("rq_shop/one.py", "there is no module"),
        ("rq_lacking", "'rq_lacking' imports 'rq_not_installed'"),
        ("rq_lacking_prefix", "'rq_lacking_prefix' imports 'rq_lacking_pre'"),
        ("rq_shop:three", "'rq_shop' has no attribute 'three'"),
        ("rq_shop:number", "'rq_shop:number' is a int"),
        ("rq_empty", "'rq_empty' declares no activities"),
    ],
)
def test_an_app_that_cannot_be_used_says_why(app: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_activities(app)
    assert caught.value.field == "app"
    assert words in str(caught.value)


def test_an_error_inside_an_app_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        load_activities("rq_wrong")


def test_one_type_has_one_handler() -> None:
    @activity("work")
    def first() -> None: ...

    @activity("work")
    def second() -> None: ...

    registry = ActivityHandlerRegistry([first, first])
    assert len(registry) == 1
    with pytest.raises(ConfigurationError, match=r"two handlers for 'work': .*first and .*second"):
        registry.add(second)
    assert registry.get("work") is first
    assert registry.get("other") is None
    assert list(registry) == [first]
    registry.register("other", lambda: None)
    assert registry.types == ("other", "work")
