"""What it did to whom, and what could not have been fairer."""
