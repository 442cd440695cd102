"""The paper (Behfar and Mortier, arXiv 2602.13651) as something to run: its claims, tables and figures."""
