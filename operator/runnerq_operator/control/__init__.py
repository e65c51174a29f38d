"""The level-triggered control loop: observe everything, plan purely, execute, report.

It knows workers only through the port `Fleet`, demand only through `runnerq.storage.ports`, and what it
found out leaves through the port `StatusSink`.
"""
