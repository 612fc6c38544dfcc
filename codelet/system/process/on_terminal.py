"""A program of its own: it makes a terminal its own and becomes a command there. Short, as it does nothing else.

It needs nothing but the standard library. Arguments: the number of the terminal's descriptor, then the words.
"""

from __future__ import annotations

import fcntl
import os
import sys
import termios

if __name__ == "__main__":
    _terminal = int(sys.argv[1])
    os.setsid()
    fcntl.ioctl(_terminal, termios.TIOCSCTTY, 0)
    for _descriptor in range(3):
        os.dup2(_terminal, _descriptor)
    os.set_inheritable(_terminal, False)
    os.execv(sys.argv[2], sys.argv[2:])
