"""Who stands in for those that are not there."""
