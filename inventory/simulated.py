"""The `simulated` testbed: machines of the simulator (`scheduler_plugins.simulator`). They cost nothing, their number
is unlimited, and nothing is installed on this box."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from barograph.errors import ConfigurationError
from inventory.memory import MachineInMemory, MemoryTestbed
from inventory.testbed import TestbedOptions, read_options
from scheduler_plugins.simulator.work import Costs, SimulationError


class SimulatedOptions(TestbedOptions):
    """Options of the simulation. Two runs with the same options, plan and seed are the same, to the byte."""

    seed: Annotated[int, Field(ge=0, description="of supervisors' ids and, with the run's, of executors' speeds")] = 0
    step_s: Annotated[float, Field(gt=0, le=60, description="the longest step of simulated time")] = 1.0
    sample_s: Annotated[
        Literal[1, 2, 5, 10],  # samples.SAMPLE_LENGTHS_S
        Field(description="how often workers and machines write, in seconds; whole parts of the analysis' windows"),
    ] = 1
    look_s: Annotated[float, Field(ge=1, le=60, description="how often the harness looks at the run")] = 1.0
    round_s: Annotated[float, Field(ge=1, le=30, description="between two scheduling rounds of Nimbus")] = 2.0
    boot_s: Annotated[float, Field(ge=0, le=3600, description="how long a machine boots that joins at its event")] = (
        40.0
    )
    costs: Mapping[str, float] = Field(default_factory=dict, description="laid over those of docs/simulator.md")


class SimulatedTestbed(MemoryTestbed[MachineInMemory]):
    """The testbed's machines; their behaviour is in the world of a run (`barograph.run.simulated_cluster`)."""

    name = "simulated"
    shared = True

    def __init__(self, options: Mapping[str, object] | None = None, fails_at: str | None = None) -> None:
        super().__init__(MachineInMemory)
        self.options = read_options(SimulatedOptions, self.name, options or {})
        self._fails_at = fails_at
        try:
            self.costs = Costs.of(self.options.costs)
        except SimulationError as error:
            raise ConfigurationError(f"testbed.options.{self.name}.{error}") from error

    def _fails(self, name: str) -> bool:
        return name == self._fails_at
