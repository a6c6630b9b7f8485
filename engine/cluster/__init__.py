"""From a topology to a run."""
