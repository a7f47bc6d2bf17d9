"""The sandbox of one episode, as its workflow sees it: ordered, made anew when it was lost, given up in a wait."""

from contextlib import suppress

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from activities.hosting import HostActivities
from activities.leasing import LeaseActivities
from schemas.host import Permit, PermitOrder, sandboxes_queue
from schemas.slice import GiveUpRequest, LeaseRef, ReleaseRequest, Restored, SliceReport
from schemas.start import EpisodeStart, Provisioned, ProvisionOrder, SandboxPlace
from workflows.hosts import HostLost, step_on_host
from workflows.options import on_queue, step_options

MAX_LOSSES = 10
"""Sandboxes of one episode that may be lost and made anew: past it the host, not the episode, is what is tried."""

NOWHERE = Permit()
"""No host is known."""


class EpisodeSandbox:
    """``place`` is all that is known of it. ``changing`` while one is being made or given up."""

    def __init__(self, start: EpisodeStart) -> None:
        self._spec, self._tuning = start.spec, start.tuning
        self.place = start.carried.place if start.carried else SandboxPlace()
        self.changing = False

    @property
    def may_give_up(self) -> bool:
        """Whether there is one that may be given up in a wait."""
        return self.place.may_give_up and self.place.state == "there"

    async def make(self, lease: LeaseRef | None = None) -> None:
        """The first one, on any host that has room. One of a fork, which has its ``lease`` before, is as its
        parent's was."""
        kept = self._spec.kept_turns
        made = await self._provision(lease if kept else None)
        self._now(earlier=made.earlier, restored=made.told(kept))

    async def replace(self, lease: LeaseRef, lost: SliceReport) -> None:
        """One in the place of one that was lost, with the files of its last checkpoint.

        It takes over the slot of the lost one, so it is ordered of the same host, if that is there.
        """
        self._now(losses=self.place.losses + 1)
        made = await self._provision(lease, self.place.permit)
        restored = Restored(
            from_turn=made.from_turn,
            open_turn=lost.open_turn,
            turns=lost.turns,
            out_of_memory=lost.out_of_memory,
        )
        self._now(restored=restored)

    async def bring_back(self, lease: LeaseRef) -> None:
        """One in the place of one that was given up, on any host that has room."""
        await self._provision(lease)

    async def give_up(self, lease: LeaseRef, slice_no: int) -> None:
        """End it and keep its files, for others to have its slot. One of which that cannot be done is lost, and the
        next slice deals with it. A policy that has not been asked yet knows of none, and is told of none."""
        assert self.place.sandbox is not None
        request = GiveUpRequest(
            spec=self._spec,
            lease=lease,
            sandbox=self.place.sandbox,
            run_id=workflow.info().run_id,
            slice_no=slice_no,
            earlier=self.place.earlier,
            host=self.place.permit.host,
        )
        self.changing = True
        try:
            given_up = await step_on_host(self.place.permit, self._tuning, LeaseActivities.give_up, request)
            told = Restored(from_turn=given_up.from_turn, turns=given_up.turns, given_up=True)
            restored = self.place.restored or (told if given_up.turns else None)
            self._now(state="given_up", earlier=given_up.earlier, restored=restored)
            await self._release()
        except HostLost:
            self.lose()
        except ActivityError:
            self._now(state="lost")
        finally:
            self.changing = False

    def lose(self) -> None:
        """It is lost with its host."""
        self._now(state="lost", permit=NOWHERE)

    def used(self, report: SliceReport, turns: int) -> None:
        """A slice has run in it. Where there were ``turns`` before, and there are more now, the policy has been
        asked since it was made, and so has heard of it."""
        restored = None if report.turns > turns else self.place.restored
        self._now(may_give_up=report.may_give_up, restored=restored)

    async def _provision(self, lease: LeaseRef | None = None, where: Permit = NOWHERE) -> Provisioned:
        """The next incarnation. One that is gone before we hear of it has run nothing: another comes after it."""
        self.changing = True
        try:
            incarnation = self.place.sandbox.incarnation if self.place.sandbox else 0
            for most in range(incarnation + 1, incarnation + MAX_LOSSES + 2):
                try:
                    return await self._ordered(most, lease, where)
                except HostLost:
                    where = NOWHERE
                except ActivityError as error:
                    if not _is_gone(error) or most > incarnation + MAX_LOSSES:
                        raise
            raise AssertionError("the last one is made, or fails")
        finally:
            self.changing = False

    async def _ordered(self, incarnation: int, lease: LeaseRef | None, where: Permit) -> Provisioned:
        permit = where if where.host else await self._find_permit()
        order = ProvisionOrder(
            spec=self._spec,
            first_run_id=workflow.info().first_execution_run_id,
            incarnation=incarnation,
            generation=lease.generation if lease is not None else 0,
            host=permit.host,
        )
        made = await step_on_host(permit, self._tuning, LeaseActivities.provision, order)
        self._now(sandbox=made.sandbox, permit=permit, state="there", may_give_up=made.may_give_up)
        return made

    async def _find_permit(self) -> Permit:
        """A host that has room, however long that takes; mostly the worker at hand knows. That it is known before
        anything is made there is what lets a worker that is restarted find its own again."""
        order = PermitOrder(name=self._spec.episode_id)
        at_hand = order.model_copy(update={"now": True})
        options = step_options(self._tuning)
        permit = await workflow.execute_activity_method(HostActivities.find_permit, at_hand, **options)
        if permit.host:
            return permit
        anywhere = on_queue(options, sandboxes_queue(workflow.info().task_queue))
        return await workflow.execute_activity_method(HostActivities.find_permit, order, **anywhere)

    async def _release(self) -> None:
        """What cannot be released now, the janitor finds: the episode goes on without it."""
        release = ReleaseRequest(sandbox=self.place.sandbox, host=self.place.permit.host)
        with suppress(HostLost, ActivityError):
            await step_on_host(self.place.permit, self._tuning, LeaseActivities.release, release)

    def _now(self, **changes: object) -> None:
        self.place = self.place.model_copy(update=changes)


def _is_gone(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == "SandboxLost"
