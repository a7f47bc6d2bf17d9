"""Drain: how much deferred work was still pending at the seal. The drain has cancelled it since."""

from schemas.contract import DrainContract
from tiltyard.graders.trial import Trial


def check_drain(contract: DrainContract, trial: Trial) -> tuple[str, ...]:
    left = [job for job in trial.facts.jobs if job.state in ("pending", "cancelled")]
    if len(left) <= contract.jobs_left:
        return ()
    kinds = ", ".join(sorted({job.kind for job in left}))
    return (f"{len(left)} deferred jobs were pending at the seal ({kinds}), at most {contract.jobs_left} may be",)
