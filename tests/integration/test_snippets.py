"""Every program in examples/snippets prints what its docstring says."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SNIPPETS = Path(__file__).parents[2] / "examples" / "snippets"
PROGRAMS = sorted(path.stem for path in SNIPPETS.glob("[a-z]*.py"))


def expected_output(source: str) -> str:
    docstring = ast.get_docstring(ast.parse(source)) or ""
    return textwrap.dedent(docstring.partition("Output:\n")[2]).strip()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_snippet_prints_what_its_docstring_says(name: str) -> None:
    path = SNIPPETS / f"{name}.py"
    expected = expected_output(path.read_text(encoding="utf-8"))
    assert expected, "a snippet's docstring ends with `Output:` and the lines it prints"
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected
