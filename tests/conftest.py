"""What every test file shares."""

from __future__ import annotations

import signal

from hypothesis import settings

# a test run that is started in the background ignores these signals, and so would every process that a test starts
for number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)

# The same examples each time: whether a change passes is not a matter of luck. A slow moment of the machine is no
# failure. `make test-random` draws new examples instead.
settings.register_profile("same examples", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("same examples")
