"""Long random faults: `python -m tests.soak --minutes 10`, or `--full` for the counts of a release."""
