"""How much, how many and how long: every bound that the supervisor keeps."""

from __future__ import annotations

MAX_JSON_BYTES, MAX_TAIL_BYTES = 64 * 2**20, 192 * 2**20  # of a frame
MAX_PATH_BYTES, MAX_ENTRIES, MAX_SKIPPED = 1024, 100_000, 1000
MAX_COPIED_BYTES, MAX_COPIED_JSON_BYTES = 180 * 2**20, 48 * 2**20  # of contents, and of what is said of them
MAX_PROGRAMS, MAX_PROGRAM_BYTES, MAX_ARGUMENTS, MAX_ARGUMENT_BYTES = 10_000, 8 * 2**20, 64, 4096
MAX_COMMANDS, MAX_READS, MAX_CONNECTIONS, MAX_MARKS, MAX_ASKING = 10_000, 1000, 1000, 2000, 1000  # that are told
MAX_ENDS_WATCHED = 256  # at once: each takes a descriptor
MAX_OPEN_FILES = 1024
PIPE_BYTES, MAX_READ_BYTES = 2**16, 2**22
BLOCK_BYTES = 2**20  # of a file
MAX_HTTP_HEAD_BYTES, MAX_HTTP_BODY_BYTES = 16_384, 2**20
MAX_CALLERS, MAX_CALLS = 32, 10_000  # connections at once, and calls of the world by one operation

TERM_S = 5.0  # from TERM to KILL
KILL_S = 10.0  # from KILL to giving up: only a process that hangs in the kernel lives that long
FREEZE_LOOKS, PATIENT_LOOKS, FREEZE_PAUSE_S = 200, 20, 0.001
SESSION_LOOKS, HOLDER_LOOKS = 100, 4096
REAPED_AT_ONCE, SEEN_AT_ONCE = 256, 1024  # then others have their turn
