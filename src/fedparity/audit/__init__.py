"""An audit of any participation log: who was left out, and how much of that could have been avoided."""

from __future__ import annotations

from fedparity.audit.audit import Audit
from fedparity.audit.open import open_audit

__all__ = ["Audit", "open_audit"]
