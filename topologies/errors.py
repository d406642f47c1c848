"""What can be wrong with a topology.

TopologyError               blame: configuration
├── UnknownTopology         no template of that name
├── UnknownParameter        a parameter that the template does not declare
├── BadParameter            a value of the wrong kind
├── BadOverride             an override that names nothing, or an impossible size
├── UnknownWork             a component of which nobody here knows what it does to a tuple
├── BrokenTemplate          a file of topologies/flux/ that cannot be read
└── JarMissing              the components were not built (blame: harness)
"""

from __future__ import annotations

from typing import ClassVar, Literal

Blame = Literal["configuration", "capacity", "infrastructure", "system_under_test", "harness"]


class TopologyError(Exception):
    blame: ClassVar[Blame] = "configuration"


class UnknownTopology(TopologyError):
    pass


class UnknownParameter(TopologyError):
    pass


class BadParameter(TopologyError):
    pass


class BadOverride(TopologyError):
    pass


class UnknownWork(TopologyError):
    pass


class BrokenTemplate(TopologyError):
    pass


class JarMissing(TopologyError):
    blame: ClassVar[Blame] = "harness"
