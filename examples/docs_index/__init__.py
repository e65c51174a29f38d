"""An index of the documentation that is already on this machine, as a runnerq example.

The pure part (`corpus`, `extract`, `analyse`, `report`, `plan`) knows nothing of any engine;
`activities` wraps it for workers, `run` drives it through a queue and `serial` in a plain loop.
"""
