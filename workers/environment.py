"""What every process is told by its environment. This is the only file that reads it."""

import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import platformdirs
from pydantic import Field, ValidationError

from infra.local.runtime import runtime_folder
from infra.stores.s3_place import s3_place
from schemas.base import Model, digest_of
from schemas.host import HOST_NAME, SANDBOXES
from schemas.start import Tuning
from tiltyard.errors import BadInput

ENVIRONMENT = {
    "TILTYARD_HOME": "the data folder",
    "TILTYARD_RUNTIME": "a short folder for sockets (default: one below the temporary folder)",
    "PATH": "where the programs of policies are found",
    "TILTYARD_TEMPORAL_ADDRESS": "host:port of the Temporal server; the embedded stack sets it",
    "TILTYARD_TEMPORAL_NAMESPACE": "the Temporal namespace (default: default)",
    "TILTYARD_TASK_QUEUE": "the task queue of the workers (default: tiltyard)",
    "TILTYARD_CALL_DEADLINE_S": "how long one tool call is sent again while the world is away (120; 1 to 86400)",
    "TILTYARD_HEARTBEAT_S": "how soon a lost worker is noticed (5; 0.5 to 300)",
    "TILTYARD_SLICE_S": "how long a slice loops turns (2; 0.001 to 60)",
    "TILTYARD_JANITOR_S": "seconds between two passes of the janitor (15; 1 to 86400)",
    "TILTYARD_JANITOR_GRACE_S": "how long a planned trial may be without a workflow (60; 1 to 86400)",
    "TILTYARD_STRANDED_S": "how long an episode waits for a worker of its version (86400; 1 to 86400)",
    "TILTYARD_OUTAGE_S": "how long a host may be silent before its episodes go on elsewhere (120; 1 to 86400)",
    "TILTYARD_KEEP_SANDBOX_S": "how long an episode that waits keeps its sandbox (60; 1 to 86400)",
    "TILTYARD_HOST": "the name of this host of sandboxes (default: one that the data folder keeps)",
    "TILTYARD_SANDBOXES": "how many sandboxes may be there at once (4 for each processor; 1 to 512)",
    "TILTYARD_WARM_SANDBOXES": "how many containers may wait for sandboxes (2 for each processor; 0 to 512)",
    "TILTYARD_DOCKER_RUNTIME": "what Docker runs containers with: runc, or another that its engine has (runc)",
    "DOCKER_HOST": "where Docker's engine listens: unix:///PATH or tcp://HOST:PORT (the machine's own)",
    "TILTYARD_OBJECTS": "where content lives: folder (the data folder's), or s3://BUCKET[/PREFIX]",
    "TILTYARD_S3_ENDPOINT": "http(s)://host:port of the S3 service",
    "TILTYARD_S3_ACCESS_KEY": "who asks the S3 service; secret",
    "TILTYARD_S3_SECRET_KEY": "the key to it; secret",
    "TILTYARD_S3_REGION": "the region of the bucket (us-east-1)",
    "TILTYARD_LOSSY": "SEED:RATE injects message losses between worker and world, for chaos runs",
}
"""Every variable that is read, with what it means."""

PLACES = frozenset({"TILTYARD_HOME", "TILTYARD_RUNTIME", "TILTYARD_TEMPORAL_ADDRESS"})
"""What an embedded stack tells its processes itself."""

SECRETS = frozenset({"TILTYARD_S3_ACCESS_KEY", "TILTYARD_S3_SECRET_KEY"})
"""What is never written anywhere: a digest stands for it."""


MOST_SLOTS = 512
"""Sandboxes at once, and containers that wait for some."""


class Lossy(Model):
    """Injected losses on the way to the world: the share of messages that are lost, delayed or doubled."""

    seed: int
    rate: float = Field(ge=0, le=0.5)


def data_folder(home: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """The data folder, resolved: ``home``, else ``TILTYARD_HOME``, else the platform's user data folder.

    Raises ``BadInput`` for a name that cannot be one: too long, a circle of links, the home of an unknown user.
    """
    env = os.environ if environment is None else environment
    folder = home or Path(env.get("TILTYARD_HOME") or platformdirs.user_data_path("tiltyard"))
    try:
        resolved = folder.expanduser().resolve()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            resolved.stat()
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        field = "--home" if home else "TILTYARD_HOME"
        raise BadInput(f"{str(folder)[:80]!r}: {why}", field=field, fix="name another folder") from error
    return resolved


def settings_of(home: Path | None = None, environment: Mapping[str, str] | None = None) -> dict[str, object]:
    """The fields of ``Settings`` that are given. Raises as ``Settings.from_environment`` does."""
    env = os.environ if environment is None else environment
    folder = data_folder(home, env)
    return {
        "home": folder,
        "runtime": _runtime(env) or runtime_folder(folder),
        "tuning": _tuning(env),
        "objects": s3_place(env),
        "given": {name: _told(name, env[name]) for name in ENVIRONMENT if _is_given(name, env)},
        **{name: read(env, variable) for name, (variable, read) in _FIELDS.items() if env.get(variable)},
    }


_DAY_S = 86_400.0
_RANGES = {
    "TILTYARD_CALL_DEADLINE_S": (1.0, _DAY_S),
    "TILTYARD_HEARTBEAT_S": (0.5, 300.0),
    "TILTYARD_SLICE_S": (0.001, 60.0),
    "TILTYARD_JANITOR_S": (1.0, _DAY_S),
    "TILTYARD_JANITOR_GRACE_S": (1.0, _DAY_S),
    "TILTYARD_STRANDED_S": (1.0, _DAY_S),
    "TILTYARD_OUTAGE_S": (1.0, _DAY_S),
    "TILTYARD_KEEP_SANDBOX_S": (1.0, _DAY_S),
}
"""Least and most seconds of each variable that is a number."""


def _is_given(name: str, env: Mapping[str, str]) -> bool:
    return name not in PLACES | {"PATH"} and bool(env.get(name))


def _told(name: str, value: str) -> str:
    return digest_of([name, value])[:19] if name in SECRETS else value


def _runtime(env: Mapping[str, str]) -> Path | None:
    given = env.get("TILTYARD_RUNTIME")
    if given and not Path(given).is_absolute():
        raise BadInput(
            f"{given!r} is not an absolute path", field="TILTYARD_RUNTIME", fix="name the folder from / on"
        )
    return Path(given) if given else None


def _tuning(env: Mapping[str, str]) -> Tuning:
    known = {
        "heartbeat_s": "TILTYARD_HEARTBEAT_S",
        "slice_s": "TILTYARD_SLICE_S",
        "outage_s": "TILTYARD_OUTAGE_S",
        "keep_sandbox_s": "TILTYARD_KEEP_SANDBOX_S",
    }
    return Tuning.model_validate(
        {name: _number(env, variable) for name, variable in known.items() if env.get(variable)}
    )


def _number(env: Mapping[str, str], variable: str) -> float:
    least, most = _RANGES[variable]
    try:
        number = float(env[variable])
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise BadInput(
            f"{env[variable][:80]!r} is not a number of seconds from {least:g} to {most:g}",
            field=variable,
            fix=f"for example {variable}=5",
        )
    return number


def _text(env: Mapping[str, str], variable: str) -> str:
    return env[variable]


def _duration(env: Mapping[str, str], variable: str) -> timedelta:
    return timedelta(seconds=_number(env, variable))


def _count(env: Mapping[str, str], variable: str, least: int = 1) -> int:
    text = env[variable]
    if not (text.isascii() and text.isdigit() and len(text) < 4 and least <= int(text) <= MOST_SLOTS):
        raise BadInput(
            f"{text[:80]!r} is not a whole number from {least} to {MOST_SLOTS}",
            field=variable,
            fix=f"for example {variable}=8",
        )
    return int(text)


def _count_or_none(env: Mapping[str, str], variable: str) -> int:
    return _count(env, variable, least=0)


def _host(env: Mapping[str, str], variable: str) -> str:
    text = env[variable]
    if not re.fullmatch(HOST_NAME, text) or text == SANDBOXES:
        raise BadInput(
            f"{text[:80]!r} is no name of a host: up to 40 of a-z, 0-9 and -, and not {SANDBOXES!r}",
            field=variable,
            fix=f"for example {variable}=second",
        )
    return text


def _docker_runtime(env: Mapping[str, str], variable: str) -> str:
    text = env[variable]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text):
        raise BadInput(
            f"{text[:80]!r} is no name of a runtime: up to 64 of letters, digits, '_', '.' and '-'",
            field=variable,
            fix=f"for example {variable}=runc",
        )
    return text


def _lossy(env: Mapping[str, str], variable: str) -> Lossy:
    text = env[variable]
    seed, _, rate = text.partition(":")
    try:
        return Lossy.model_validate({"seed": seed, "rate": rate})
    except ValidationError:
        raise BadInput(
            f"{text[:80]!r} is not SEED:RATE",
            field=variable,
            fix="a number and a share up to 0.5, as in 7:0.1",
        ) from None


_FIELDS: dict[str, tuple[str, Callable[[Mapping[str, str], str], object]]] = {
    "search_path": ("PATH", _text),
    "temporal_address": ("TILTYARD_TEMPORAL_ADDRESS", _text),
    "temporal_namespace": ("TILTYARD_TEMPORAL_NAMESPACE", _text),
    "task_queue": ("TILTYARD_TASK_QUEUE", _text),
    "host_name": ("TILTYARD_HOST", _host),
    "docker_runtime": ("TILTYARD_DOCKER_RUNTIME", _docker_runtime),
    "call_deadline": ("TILTYARD_CALL_DEADLINE_S", _duration),
    "janitor_interval": ("TILTYARD_JANITOR_S", _duration),
    "janitor_grace": ("TILTYARD_JANITOR_GRACE_S", _duration),
    "stranded": ("TILTYARD_STRANDED_S", _duration),
    "slots": ("TILTYARD_SANDBOXES", _count),
    "warm": ("TILTYARD_WARM_SANDBOXES", _count_or_none),
    "lossy": ("TILTYARD_LOSSY", _lossy),
}
"""The variable of each field, and what reads it where it is set."""
