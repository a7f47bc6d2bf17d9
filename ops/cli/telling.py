"""``tiltyard episodes show``: one episode told from what is kept of it. It starts nothing."""

from pathlib import Path

from ops.cli.called import command_line
from ops.cli.folded import Line, prose, show_lines
from ops.cli.looking import listed, recorded, running
from ops.cli.made_from import Made, made_from, origin_lines
from ops.cli.output import Output
from ops.cli.ran_in import ran_in
from ops.cli.results import NOT_MADE, TOLD, show_result
from ops.cli.story_shown import so_far_lines, story_lines
from ops.cli.turn_in_full import full_lines
from ops.cli.watching import status_line
from schemas.episode import EpisodeResult, EpisodeSpec
from schemas.exam import Exams
from schemas.journal import TurnRecord
from schemas.story import Story
from tiltyard.episode.grading import NO_EXAMS
from tiltyard.episode.tasks import TaskShelf
from tiltyard.errors import TiltyardError
from tiltyard.ports import Journal
from tiltyard.reopen.kept import exams_of, task_of, trace_of
from tiltyard.reopen.story import so_far, tell, turn_in_full, turn_so_far
from tiltyard.trace import Trace
from workers.bootstrap.ground import open_journal, open_records
from workers.bootstrap.objects import open_objects
from workers.settings import Settings


async def show_one(home: Path | None, episode_id: str, out: Output) -> None:
    """Print an episode's result and its story; of one that runs where it is, and its turns so far.

    Raises ``BadInput`` when there is no such episode.
    """
    settings = Settings.from_environment(home)
    spec, result = await recorded(settings, episode_id)
    if result is None:
        await _show_open(settings, spec, out)
        return
    trace, exams = await _facts(settings, result, out)
    story = tell(trace, result, exams) if trace is not None else None
    told = story.model_dump(mode="json") if story is not None else None
    made = await _made(settings, spec, trace)
    out.value({**result.model_dump(mode="json"), **made.model_dump(mode="json"), "story": told})
    show_result(out, result, sandbox=ran_in(result, trace), made=made)
    if story is not None:
        show_lines(out, story_lines(story, result))


async def _facts(settings: Settings, result: EpisodeResult, out: Output) -> tuple[Trace | None, Exams]:
    """What the story is told from. That there is none, or that some cannot be read, is only remarked on."""
    trace, missing = None, "no story"
    try:
        with open_objects(settings) as objects:
            trace = await trace_of(result, objects)
            missing = "what its tests said is not told"
            return trace, await exams_of(result, objects) if result.exams else NO_EXAMS
    except TiltyardError as error:
        out.note(f"{missing}: {error}")
        return trace, NO_EXAMS


async def _made(settings: Settings, spec: EpisodeSpec, trace: Trace | None = None) -> Made:
    """How it departs from what it was made from; not told where its task cannot be read."""
    with open_records(settings) as records, open_objects(settings) as objects:
        try:
            task = trace.task if trace else await task_of(spec, TaskShelf(objects))
        except TiltyardError:
            return NOT_MADE
        return await made_from(spec, task, records, objects, trace) if records else NOT_MADE


async def _show_open(settings: Settings, spec: EpisodeSpec, out: Output) -> None:
    async with running(settings) as ground:
        status = await ground.status(spec.episode_id) if ground else None
    story = await _story_so_far(settings, spec, out)
    told = status.model_dump(mode="json") if status is not None else listed(spec, None, None)
    made, origin = await _made(settings, spec), spec.origin.model_dump() if spec.origin else None
    told = {**told, "origin": origin, **made.model_dump(mode="json")}
    out.value({**told, "story": story.model_dump(mode="json") if story is not None else None})
    show_lines(out, prose(status_line(status) if status else away(spec.episode_id)))
    lines = origin_lines(spec.origin, spec.policy.target, made)
    show_lines(out, (Line(line, hang=TOLD) for line in lines))
    if story is not None:
        show_lines(out, so_far_lines(story))


def away(episode_id: str) -> str:
    """What is said of an open episode that nobody can be asked about: it may need an answer, or be paused."""
    return "\n".join(
        (
            f"{episode_id}: open, and no stack is running; to see where it is, and what it needs:",
            command_line("up"),
            command_line("episodes", "show", episode_id),
        )
    )


async def _story_so_far(settings: Settings, spec: EpisodeSpec, out: Output) -> Story | None:
    try:
        with open_objects(settings) as objects, open_journal(settings, objects) as journal:
            task = await TaskShelf(objects).load(spec.task_digest)
            return so_far(spec, task, *await _newest(journal, spec.episode_id))
    except TiltyardError as error:
        out.note(f"its turns cannot be read: {error}")
        return None


async def _newest(journal: Journal, episode_id: str) -> tuple[int, tuple[TurnRecord, ...]]:
    """The generation that the episode is in, and its turns."""
    generation = await journal.newest(episode_id)
    return generation, await journal.read(episode_id, generation)


async def show_turn(home: Path | None, episode_id: str, turn: int, out: Output) -> None:
    """Print one turn with everything that is kept of it; of an episode that runs, what its journal has.

    Raises ``BadInput`` for a turn that there is not, and for an episode without a trace.
    """
    settings = Settings.from_environment(home)
    spec, result = await recorded(settings, episode_id)
    with open_objects(settings) as objects:
        if result is None:
            with open_journal(settings, objects) as journal:
                full = turn_so_far(spec, *await _newest(journal, episode_id), turn)
        else:
            full = turn_in_full(await trace_of(result, objects), turn)
    out.value({"episode_id": episode_id, **full.model_dump(mode="json")})
    head = f"episode {episode_id}, {spec.task_id}, policy {spec.policy.target}"
    show_lines(out, [Line(head), Line(""), *full_lines(full)])
