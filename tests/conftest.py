"""Shared by all tests: no time limits (no test asserts a time), and the same examples every time in CI."""

import os

from hypothesis import settings

settings.register_profile("fedparity", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("fedparity")
