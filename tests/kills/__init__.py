"""kill -9 of one process again and again, until its topology is complete and can be judged: what all that are killed so have in common.

`steps`: where a process dies. `moments`: when, of a call. `lives`: what happens in the process. `rounds`: what starts and kills them.
`program`: any script, with a death.
Each kind of topology adds its own steps, and a judge.
"""
