"""Bolt tasks whose instances live in child processes (PR-1 to PR-3).

`process_bolt` is the actor in the run, and `child_task` runs the instance. A `FrameLink` connects them.
"""
