"""Small programs, one behaviour each. `tests/integration/test_snippets.py` runs every one and compares
what it prints with the lines after `Output:` in its docstring."""
