"""What a soak has done so far, counted, and as lines for a person."""

import resource
import sys
from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.simulate import Simulated


@dataclass
class Figures:
    """Counts since the soak began."""

    simulations: int = 0
    roots: int = 0
    replaced: int = 0
    faults: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    """By kind: injected deaths, and (`runs with …`) the runs that had one."""
    virtual_secs: float = 0.0
    states: Counter[str] = field(default_factory=Counter)
    programs: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """Each with the command that replays it."""

    def add(self, simulated: Simulated) -> None:
        """Count one simulated run."""
        self.simulations += 1
        self.roots += simulated.roots
        self.replaced += simulated.replaced
        self.killed.update(simulated.killed)
        self.killed.update(f"runs with {kind}" for kind in {*simulated.killed})
        self.faults += simulated.faults
        self.virtual_secs += simulated.secs
        self.states[simulated.state] += 1
        if simulated.violations:
            self.violations.append(simulated.describe())

    def line(self, secs: float) -> str:
        """One line of progress."""
        return (
            f"{secs:7.0f} s  {self.simulations:,} runs, {self.roots:,} roots, {self.faults:,} faults; "
            f"{self.programs.total():,} DAGs; {len(self.violations)} violations; {peak_mib():.0f} MiB"
        )

    def summary(self) -> str:
        """What it came to."""
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(self.states.items()))
        programs = ", ".join(f"{count:,} through {name}" for name, count in self.programs.items())
        kinds = ("bolt", "spout", "acker")
        deaths = ", ".join(f"{self.killed[kind]:,} {kind}s in {self.killed[f'runs with {kind}']:,} runs" for kind in kinds)
        lines = [
            f"random tuple DAGs against the tree model: {self.programs.total():,} ({programs or 'none'})",
            f"simulated runs: {self.simulations:,} ({states or 'none'}), {self.virtual_secs / 3600:.1f} h of virtual time",
            f"  {self.roots:,} roots, {self.faults:,} injected faults, {self.replaced:,} instances replaced",
            f"  killed: {deaths}",
            f"violations: {len(self.violations)}",
            *self.violations,
        ]
        return "\n".join(lines)


def peak_mib() -> float:
    """The most memory that this process had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
