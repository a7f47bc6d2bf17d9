"""The embedded stack that a command needs."""

import sys

from infra.local.code import code_digest
from infra.local.config import StackConfig
from infra.local.temporal import temporal_binary
from workers.environment import SECRETS
from workers.settings import Settings

MODULE = (sys.executable, "-P", "-m")
"""Python without the current folder on its path: a file there must not shadow a module."""


def stack_config(settings: Settings) -> StackConfig:
    """The embedded stack of these settings."""
    return StackConfig(
        home=settings.home,
        runtime=settings.runtime,
        code=code_digest(),
        temporal=(temporal_binary(),),
        world=(*MODULE, "workers.world_server"),
        sandboxes=(*MODULE, "workers.sandbox_host"),
        worker=(*MODULE, "workers.worker"),
        world_socket=settings.world_socket,
        sandboxes_socket=settings.sandboxes_socket,
        settings=settings.given,
        secrets=tuple(sorted(SECRETS & settings.given.keys())),
        temporal_namespace=settings.temporal_namespace,
    )
