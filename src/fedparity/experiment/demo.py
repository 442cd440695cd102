"""The embedded job: seven methods on one population of phones, learning real digits."""

from __future__ import annotations

DEMO = """\
# The embedded demo: who is served when clients come and go like phones, and at what accuracy?
version = 1
name = "demo"
seeds = 3
rounds = 200      # half-hour rounds: four days
cohort = 5

[population]
clients = 100
availability = "phones"

[task]
dataset = "digits"

[[methods]]
name = "uniform"

[[methods]]
name = "inverse"

[[methods]]
name = "cup_paper"

[[methods]]
name = "cup_authors"

[[methods]]
name = "least_served"

[[methods]]
name = "parity"

[[methods]]
name = "parity_surrogate"
"""
