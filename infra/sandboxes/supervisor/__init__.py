"""The supervisor: the one process of ours in a sandbox. It runs commands and moves files, each once, and ends them.

    python3 -I -S supervisor.py CONTROL JOURNAL [PROC_FD]

``CONTROL`` is the descriptor of a connected stream socket, or the path of one to listen on, for a sandbox that
outlives its host: one host at a time is spoken with, the newest. A frame on it is two lengths of four bytes,
big-endian, and that many bytes of JSON and of a tail: a request ``{"id": N, "do": NAME, ...}`` or its reply,
``{"id": N, "ok": {...}}`` or ``{"id": N, "error": {"kind", "message"}}``. The tail has the contents of files, one
after the other; in the JSON each is ``{"bytes": COUNT}``. When the other side hangs up, everything here is killed,
unless another may come. ``JOURNAL`` is the descriptor or the path of a file for reading and appending that nothing
in the sandbox can reach. ``PROC_FD`` is a ``/proc`` that may be written to, where the sandbox's own may not.

Processes in the sandbox may have the same user as the supervisor and wish it ill. So it is not dumpable, which
closes ``/proc/PID`` and ptrace to them, and hands no descriptor on. As PID 1 no signal of theirs reaches it.

Its modules are joined into one file, which is all that is put into a sandbox (``infra.sandboxes.joined``): of the
standard library's, for Python 3.9 and later. One is started for every episode, so they import C modules only, a few
of them private: json, hashlib, signal and ctypes would take longer to load than everything else of the start
together.
"""
