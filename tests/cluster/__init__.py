"""The real Kubernetes that the tests run on: a given one, kind, or one started on this machine.

`python -m tests.cluster up` and `down` do by hand what the pytest fixtures do by themselves.
"""
