"""A run and its actors: the tasks that poll, execute and settle tuples, their wiring, and their supervision.

Begin with `run` and `supervisor`. `executor` is the base of `spout_executor` and `bolt_executor`. A failing call is handled in
`BoltExecutor._handle_call_error`, and a dead instance is replaced in `Executor._replace`. `restart_policy` only counts and computes pauses.
"""
