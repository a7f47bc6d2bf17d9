"""Names of hosts as they are found in a sandbox: there are no name servers."""

from collections.abc import Iterable

ITSELF = "127.0.0.1 localhost sandbox\n::1 localhost\n"


def hosts_file(services: Iterable[str] = ()) -> str:
    """``/etc/hosts`` of a sandbox in which these names are served."""
    return ITSELF + "".join(f"127.0.0.1 {name}\n" for name in services)
