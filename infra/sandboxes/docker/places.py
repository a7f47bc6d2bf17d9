"""How our containers are known, who commands run as in them, and what their ``/etc`` says."""

from collections.abc import Mapping

from infra.sandboxes.names import hosts_file
from schemas.sandbox import WORK

LABEL = "tiltyard"
"""Every image and container that is ours has it."""

FOLDER = "tiltyard.folder"
"""A container's label: its own folder on the host, which is in that of the host it belongs to."""

CONTAINERS = "containers"
"""Below the folder of the driver: one for each container that there may be."""

ETC: Mapping[str, str] = {
    "passwd": "root:x:0:0:root:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
"""What an image of ours says."""


HOSTS = "hosts"
"""The file that is written anew for each sandbox: it has the names under which a world is reached there."""


def etc_of(user: int) -> Mapping[str, str]:
    """What a container says: its commands are ``agent``, of this user and group. There are no name servers: Docker
    would tell the host's, which nothing here can reach."""
    return {
        "passwd": f"{ETC['passwd']}agent:x:{user}:{user}:agent:{WORK}:/bin/sh\n",
        "group": f"{ETC['group']}agent:x:{user}:\n",
        "resolv.conf": "",
        HOSTS: hosts_file(),
    }
