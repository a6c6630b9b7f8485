"""A campaign of hostile surroundings: code of the program around a run misbehaves at each place that calls it (RUN-6).

- `misdeeds`: what such code does. It raises, returns nonsense, or blocks for a moment.
- `surroundings`: the places: logging, callbacks, methods of values and errors, and what components do in each call.
- `metrics`, `variables`, `streams`, `forks`: what they do: they use odd metrics and context variables, print to broken streams, and fork.
- `bolts`, `sources`, `forms`: each kind of component, and how a run of it goes: inputs fail, the instance dies, the run ends.
- `case`: one case, with its values and errors.
- `campaign`: runs one case, and judges it.

Each is a table. A new row takes part in all cases.
"""
