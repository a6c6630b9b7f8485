"""Runs a topology as actors that poll, execute and settle tuples, and supervises these actors.

Begin with `run` and `supervisor`. `executor` is the base of `spout_executor` and `bolt_executor`. A failing call is handled in
`BoltExecutor._handle_call_error`, and a dead instance is replaced in `Executor._replace`. `restart_policy` only counts deaths and computes
pauses.
"""
