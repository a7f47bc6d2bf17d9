"""Workflows in a worker without a version, which the server forbids to say how theirs binds them.

The sandbox of workflows imports this module anew for each run.
"""

from dataclasses import replace

from temporalio.common import VersioningBehavior
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails


class UnversionedRunner(UnsandboxedWorkflowRunner):
    """Runs a workflow as if its definition said nothing of versions."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        defn = replace(det.defn, versioning_behavior=VersioningBehavior.UNSPECIFIED)
        return super().create_instance(replace(det, defn=defn))
