"""The one way to connect to Temporal: converter, and a runtime that gets cancellations pushed."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime, TelemetryConfig

from workers.settings import Settings

WORKER_HEARTBEAT = timedelta(seconds=10)
"""With a worker heartbeat the server can push cancellations; activity heartbeats stay the backup."""


async def connect(settings: Settings) -> Client:
    """A client of the settings' cluster and namespace."""
    return await Client.connect(
        settings.temporal_address,
        namespace=settings.temporal_namespace,
        data_converter=pydantic_data_converter,
        runtime=Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=WORKER_HEARTBEAT),
    )
