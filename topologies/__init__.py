"""Topologies: Java components, a Flux template per topology, and the catalogue that reads them."""
