"""``tiltyard episodes``: look at episodes and steer them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.failures import DONE
from ops.cli.output import Output, json_option

if TYPE_CHECKING:
    from workers.ground import Ground

EPISODE = click.argument("episode_id", metavar="EPISODE")


@click.group()
def episodes() -> None:
    """List, show, watch and steer episodes."""


def _on_ground(home: Path | None, out: Output, work: "Callable[[Ground], Awaitable[None]]") -> int:
    """Do something on the ground, which is started first where needed."""
    from ops.cli.session import ground

    async def do() -> None:
        async with ground(home, out.note) as opened:
            await work(opened)

    asyncio.run(do())
    return DONE


@episodes.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 100_000), help="Newest so many.")
@click.pass_obj
@json_option
def list_episodes(home: Path | None, limit: int, out: Output) -> int:
    """List the newest episodes first; one without an end is planned or running."""

    async def work(ground: "Ground") -> None:
        found = await ground.records.episodes(limit)
        for spec, result in found:
            out.value(
                {
                    "episode_id": spec.episode_id,
                    "task": spec.task_id,
                    "policy": spec.policy.target,
                    "seed": spec.seed,
                    "end": result.end if result else None,
                    "validity": result.validity if result else None,
                    "score": result.score.total if result else None,
                }
            )
        rows = [
            (
                spec.episode_id,
                spec.task_id,
                spec.policy.target,
                str(spec.seed),
                str(result.end) if result else "open",
                f"{result.score.total:.2f}" if result else "",
            )
            for spec, result in found
        ]
        out.table(("EPISODE", "TASK", "POLICY", "#SEED", "END", "#SCORE"), rows)

    return _on_ground(home, out, work)


@episodes.command()
@EPISODE
@click.pass_obj
@json_option
def show(home: Path | None, episode_id: str, out: Output) -> int:
    """Show an episode's graded result, or where it is while it runs."""
    from ops.cli.results import show_result
    from ops.cli.watching import status_line

    async def work(ground: "Ground") -> None:
        result = await ground.records.result(episode_id)
        if result is not None:
            out.value(result)
            show_result(out, result)
            return
        status = await ground.status(episode_id)
        out.value(status)
        out.show(status_line(status))

    return _on_ground(home, out, work)


@episodes.command()
@EPISODE
@click.pass_obj
@json_option
def watch(home: Path | None, episode_id: str, out: Output) -> int:
    """Follow an episode to its end and print its result. Ctrl-C stops the watching only."""
    from ops.cli.results import show_result
    from ops.cli.watching import follow

    async def work(ground: "Ground") -> None:
        result = await follow(ground, episode_id, out.note)
        out.value(result)
        show_result(out, result)

    return _on_ground(home, out, work)


def _steer(
    home: Path | None, out: Output, episode_id: str, done: str, work: "Callable[[Ground], Awaitable[None]]"
) -> int:
    code = _on_ground(home, out, work)
    out.value({"episode_id": episode_id, "done": done})
    out.show(f"{episode_id}: {done}")
    return code


@episodes.command()
@EPISODE
@click.option("--reason", default="stopped by request", show_default=True, help="Recorded with the result.")
@click.pass_obj
@json_option
def stop(home: Path | None, episode_id: str, reason: str, out: Output) -> int:
    """End an episode; it is recorded as cancelled."""
    return _steer(home, out, episode_id, "stopped", lambda ground: ground.stop(episode_id, reason))


@episodes.command()
@EPISODE
@click.pass_obj
@json_option
def pause(home: Path | None, episode_id: str, out: Output) -> int:
    """Hold an episode at its next turn boundary, for as long as you like."""
    return _steer(home, out, episode_id, "paused", lambda ground: ground.pause(episode_id))


@episodes.command()
@EPISODE
@click.pass_obj
@json_option
def resume(home: Path | None, episode_id: str, out: Output) -> int:
    """Let a paused episode go on."""
    return _steer(home, out, episode_id, "resumed", lambda ground: ground.resume(episode_id))


@episodes.command()
@EPISODE
@click.argument("text")
@click.pass_obj
@json_option
def answer(home: Path | None, episode_id: str, text: str, out: Output) -> int:
    """Answer an episode's question or approval with TEXT."""
    return _steer(home, out, episode_id, "answered", lambda ground: ground.answer(episode_id, text))
