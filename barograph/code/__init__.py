"""Code of variants: git refs of this repository, and schedulers of others, built once per commit and kept."""
