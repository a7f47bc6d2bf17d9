"""Which errors of the system pass: the same may work a moment later. They say nothing of what a machine can do."""

import errno
import os

PASSING = (errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT)
"""Too many processes or open files, and too little memory or time, for now."""


def may_pass(error: BaseException) -> bool:
    """Whether it is one of them, or tells in its words that a program met one."""
    if isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno in PASSING):
        return True
    return any(os.strerror(number) in str(error) for number in PASSING)
