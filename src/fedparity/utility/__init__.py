"""What taking part was worth: one file a rule."""
