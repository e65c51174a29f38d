"""`runnerq dev`: the operator's control loop on this machine, with local processes for pods, a backend
of its own and the console.

Everything it writes is in `.runnerq/` beside the queue's file.
"""
