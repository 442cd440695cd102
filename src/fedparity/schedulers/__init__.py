"""Who is asked: one file a policy."""
