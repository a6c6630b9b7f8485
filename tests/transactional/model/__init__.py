"""Random transactional topologies, batches and faults under the virtual clock, against a sequential interpreter."""
