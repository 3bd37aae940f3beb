"""What every test file shares."""

from __future__ import annotations

import signal

from hypothesis import settings

# a test run that is started in the background ignores these signals, and so would every process that a test starts
for number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)

# a slow moment of the machine is no failure; the examples and what is asserted of them stay as they are
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
