"""Starting the embedded stack when a command needs it."""

import sys

from infra.local.code import code_digest
from infra.local.config import StackConfig
from infra.local.stack import Say, bring_up
from infra.local.temporal import temporal_binary
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
        worker=(*MODULE, "workers.worker"),
        world_socket=settings.world_socket,
        temporal_namespace=settings.temporal_namespace,
    )


def on_stack(settings: Settings, say: Say, *, pinned: bool = False) -> Settings:
    """The settings of the running stack, which is started first where needed."""
    state = bring_up(stack_config(settings), say, pinned=pinned)
    return settings.model_copy(update={"temporal_address": state.address})
