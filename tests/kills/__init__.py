"""kill -9 of one process again and again until its topology is complete and can be judged.

`steps` names the places of death, `moments` the moments around a call. `lives` runs in the process, `rounds` starts and kills the
processes. `program` adds a death to any script. Each kind of topology adds its own steps and a judge.
"""
