"""The limits of Ansible's plays, by the playbook's name."""

from collections.abc import Mapping

# The longest that each play may take, in seconds: its scripts' own waits, and twice the rest
# on the slowest machines measured.
LIMITS_S: Mapping[str, float] = {
    "deploy": 1800,  # packages of a first boot (10 min) and apt's lock (5 min); Storm goes over the user's own way out
    "extend": 1200,  # as deploy, and the master has Storm already
    "switch": 300,  # two jars; Nimbus and the service have 90 s to answer
    "reset": 180,  # Nimbus has 30 s to forget the topology, workers 15 s to end, supervisors 60 s to register
    "submit": 300,  # a jar; Flux is a JVM of its own on a fraction of a core, and has 120 s
    "join": 120,  # Nimbus has 60 s to know them
    "leave": 120,
    "revive": 120,
    "kill": 90,  # Nimbus has 30 s
    "collect": 600,  # the record of two days from many machines
    "stop": 120,
}
