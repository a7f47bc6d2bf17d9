"""``tiltyard episodes``: look at episodes and steer them. To look starts nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ops.cli.failures import DONE
from ops.cli.output import Output, json_option
from ops.cli.typed import Text, Whole

if TYPE_CHECKING:
    from workers.ground import Ground

EPISODE = click.argument("episode_id", metavar="EPISODE")
EPISODES = click.argument("episode_ids", metavar="EPISODE…", nargs=-1, required=True)


@click.group()
def episodes() -> None:
    """List, show, watch and steer episodes."""


def _run(work: Coroutine[Any, Any, None]) -> int:
    asyncio.run(work)
    return DONE


@episodes.command("list")
@click.option("--limit", default=50, show_default=True, type=Whole(1, 100_000), help="Newest so many.")
@click.option("--probes", is_flag=True, help="Also the episodes that `episodes minimise` plays.")
@click.pass_obj
@json_option
def list_episodes(home: Path | None, limit: int, probes: bool, out: Output) -> int:
    """List the newest episodes first. Open ones say where they are when the stack runs; nothing is started."""
    from ops.cli.looking import show_list

    return _run(show_list(home, limit, out, probes=probes))


@episodes.command(short_help="Tell the story of an episode, or where it is.")
@EPISODE
@click.option("--turn", metavar="N", type=Whole(0), help="One turn with all that is kept of it instead.")
@click.option("--diff", metavar="OTHER", help="Where its decisions part from those of OTHER instead.")
@click.option("--processes", is_flag=True, help="The programs of its sandbox instead, as a tree with their times.")
@click.pass_obj
@json_option
def show(
    home: Path | None, episode_id: str, turn: int | None, diff: str | None, processes: bool, out: Output
) -> int:
    """Tell the story of an episode: its result with the facts behind every point, its turns with what each call
    did, what came after them, its programs and the times of its phases. Nothing is started.

    Of very many turns the first and the last are shown, and between them some that changed something or went
    wrong. Of an episode that runs its turns so far are shown, and where it is while the stack runs.
    """
    from ops.cli import telling

    if (turn is not None) + (diff is not None) + processes > 1:
        raise click.UsageError("give one of --turn, --diff and --processes")
    if turn is not None:
        return _run(telling.show_turn(home, episode_id, turn, out))
    if diff is not None:
        from ops.cli.apart import show_diff

        return _run(show_diff(home, episode_id, diff, out))
    if processes:
        from ops.cli.processes import show_processes

        return _run(show_processes(home, episode_id, out))
    return _run(telling.show_one(home, episode_id, out))


@episodes.command()
@EPISODE
@click.pass_obj
@json_option
def watch(home: Path | None, episode_id: str, out: Output) -> int:
    """Follow an episode to its end and print its result. Ctrl-C stops the watching only."""
    from ops.cli.results import show_result
    from ops.cli.session import ground
    from ops.cli.watching import follow

    async def work() -> None:
        async with ground(home, out.note) as opened:
            result = await follow(opened, episode_id, out.note)
            out.value(result)
            show_result(out, result)

    return _run(work())


def _steer(
    home: Path | None,
    out: Output,
    episode_ids: Sequence[str],
    done: str,
    message: "Callable[[Ground, str], Awaitable[None]]",
) -> int:
    """Send a message to each episode. One that refuses it keeps it from no other; the first refusal is raised."""
    from ops.cli.failures import told
    from ops.cli.session import ground
    from tiltyard.errors import BadInput

    async def work() -> None:
        refused: list[BadInput] = []
        async with ground(home, out.note) as opened:
            for episode_id in dict.fromkeys(episode_ids):
                try:
                    await message(opened, episode_id)
                except BadInput as error:
                    refused.append(error)
                    continue
                out.value({"episode_id": episode_id, "done": done})
                out.show(f"{episode_id}: {done}")
        for other in refused[1:]:
            out.note(told(other)[0])
        if refused:
            raise refused[0]

    return _run(work())


@episodes.command()
@EPISODES
@click.option(
    "--reason",
    default="stopped by request",
    show_default=True,
    type=Text("Stop", "reason"),
    help="Recorded with the result.",
)
@click.pass_obj
@json_option
def stop(home: Path | None, episode_ids: tuple[str, ...], reason: str, out: Output) -> int:
    """End episodes; they are recorded as cancelled."""
    return _steer(home, out, episode_ids, "stopped", lambda ground, episode: ground.stop(episode, reason))


@episodes.command(short_help="Hold episodes at their next turn boundary.")
@EPISODES
@click.pass_obj
@json_option
def pause(home: Path | None, episode_ids: tuple[str, ...], out: Output) -> int:
    """Hold episodes at their next turn boundary, for as long as you like."""
    return _steer(home, out, episode_ids, "paused", lambda ground, episode: ground.pause(episode))


@episodes.command()
@EPISODES
@click.pass_obj
@json_option
def resume(home: Path | None, episode_ids: tuple[str, ...], out: Output) -> int:
    """Let paused episodes go on."""
    return _steer(home, out, episode_ids, "resumed", lambda ground, episode: ground.resume(episode))


@episodes.command()
@EPISODE
@click.argument("text", type=Text("Answer", "text"))
@click.pass_obj
@json_option
def answer(home: Path | None, episode_id: str, text: str, out: Output) -> int:
    """Answer an episode's question or approval with TEXT."""
    return _steer(home, out, (episode_id,), "answered", lambda ground, episode: ground.answer(episode, text))


@episodes.command(short_help="Keep an episode as a case that `tasks check` plays from then on.")
@EPISODE
@click.option("--to", type=click.Path(path_type=Path), help="The file, or the folder of a suite's pins.")
@click.option("--name", metavar="NAME", help="The pin's name (default: the task's and the episode's).")
@click.pass_obj
@json_option
def pin(home: Path | None, episode_id: str, to: Path | None, name: str | None, out: Output) -> int:
    """Keep an ended episode as a regression case: the whole task, the seed, the decisions, and what came of them.

    It is written to the folder `pinned` of the data folder, or to the file or folder of --to, such as the folder
    `pinned` beside a suite's worlds. `tiltyard tasks check` plays it from then on. No stack is needed.
    """
    from ops.cli.pinning import pin_episode

    return _run(pin_episode(home, episode_id, to, name, out))


@episodes.command(short_help="Shrink a failure to the fewest decisions that still fail so.")
@EPISODE
@click.option("--contract", metavar="NAME", help="The contract whose failure is shrunk (default: the first).")
@click.option("--any-reason", is_flag=True, help="It may fail for another reason than it did.")
@click.option("--jobs", default=4, show_default=True, type=Whole(1, 200), help="Episodes at once.")
@click.option("--most-runs", default=500, show_default=True, type=Whole(1, 100_000), help="Stop after so many.")
@click.option("--to", type=click.Path(path_type=Path), help="Pin what is left, as `episodes pin --to` does.")
@click.pass_obj
@json_option
def minimise(
    home: Path | None,
    episode_id: str,
    contract: str | None,
    any_reason: bool,
    jobs: int,
    most_runs: int,
    to: Path | None,
    out: Output,
) -> int:
    """Shrink the decisions of an episode that failed a contract to the fewest that still fail it alike.

    Whole turns are left out first, then single calls; the decision that ends the episode stays. Each choice is
    played as an episode of its own, on the task's world and in its sandboxes, and must fail the contract for the
    same reason.
    """
    from ops.cli.minimising import Wish
    from ops.cli.minimising import minimise as shrink

    return _run(shrink(home, Wish(episode_id, contract, any_reason, jobs, most_runs, to), out))
