"""A Flower app as one begins with, on handwritten digits."""
