"""Machines of an Emulab project, by the portal's REST interface or by the commands of its ops host."""
