"""What every test file shares."""

from __future__ import annotations

from hypothesis import settings

# a slow moment of the machine is no failure; the examples and what is asserted of them stay as they are
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
