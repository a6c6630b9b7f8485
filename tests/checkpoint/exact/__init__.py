"""kill -9 of topologies whose sources have their positions in the checkpoint: each row is counted exactly once (EO-1, EO-2).

`topology` has the sources and the bolts, `faults` what fails in a process beside the kill, `killing` is the process. `steps` are the named
places of death, `plan` draws the deaths, and `rounds` runs the processes and judges the stored state after each of them.
"""
