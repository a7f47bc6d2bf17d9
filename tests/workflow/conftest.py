"""One Temporal server for the whole session, and one whose time is skipped."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from infra.local.temporal import temporal_binary

FLAGS = (
    "--dynamic-config-value",
    "system.enableCancelActivityWorkerCommand=true",
    "--dynamic-config-value",
    "frontend.WorkerCommandsEnabled=true",
)


@pytest.fixture(scope="session")
async def client() -> AsyncIterator[Client]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_binary(),
        dev_server_extra_args=list(FLAGS),
        dev_server_log_level="error",
        data_converter=pydantic_data_converter,
    ) as environment:
        yield environment.client


@pytest.fixture(scope="session")
async def skipping() -> AsyncIterator[Client]:
    """A server of its own, whose timers take no time."""
    async with await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=temporal_binary(),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
        dev_server_log_level="error",
        data_converter=pydantic_data_converter,
    ) as environment:
        yield environment.client
