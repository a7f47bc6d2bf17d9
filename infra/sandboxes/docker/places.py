"""How our containers are known, who commands run as in them, and what their ``/etc`` says."""

from collections.abc import Mapping

from schemas.sandbox import WORK

LABEL = "tiltyard"
"""Every image and container that is ours has it."""

HOME = "tiltyard.home"
"""A container's label: the folder of the host that it belongs to."""

AGENT = 1_900_000_000
"""User and group of commands. Nobody on the machine has it: limits by user and signals reach no one else's."""

ETC: Mapping[str, str] = {
    "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:{AGENT}:{AGENT}:agent:{WORK}:/bin/sh\n",
    "group": f"root:x:0:\nagent:x:{AGENT}:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
