"""How much each row counts: one file a rule."""
