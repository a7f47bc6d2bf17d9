"""The Docker engine that is talked to."""

import math
import socket
import time
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env

from tiltyard.errors import EnvironmentFailed, SandboxUnavailable

API = "1.41"
"""The oldest version of its interface that has all that is used here. It is named so that nothing connects yet."""

CALL_S = 60.0
"""How long the engine may be silent in one call, in seconds."""

SLOW, SLOW_S = ("/images/load", "/images/create", "/wait"), 300.0
"""What takes longer, and how long that may be: images, and to wait for the end of a program."""

LEAST_S = 0.1
"""What a call gets when there is no time any more."""

PING_S = 10.0
"""How long it may take to say that it is there."""

RESTART = "see whether `docker info` answers, and restart Docker where it does not"

NAME_ENGINE = "set DOCKER_HOST to unix:///PATH or tcp://HOST:PORT, or unset it"

NAME_CERTIFICATES = (
    "let DOCKER_CERT_PATH name a folder with ca.pem, cert.pem and key.pem, or unset it and DOCKER_TLS_VERIFY"
)

USUAL = "unix:///var/run/docker.sock"


class NoAnswer(DockerException):
    """The engine did not answer in time, or hung up, or what came is no answer."""


class Engine(docker.DockerClient):
    """A client of the engine at ``place``. Every call ends: whatever happens, it raises ``DockerException``."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.api: Calls = Calls(*arguments, **named)
        self.place = USUAL

    def end_within(self, limit_s: float) -> None:
        """All calls from now on have so many seconds together, and whatever comes later next to none."""
        self.api.until = time.monotonic() + limit_s

    def ping_within(self, limit_s: float) -> None:
        """Raises ``DockerException``, and ``NoAnswer`` for what is no engine."""
        answer = self.api.get(f"{self.api.base_url}/_ping", timeout=limit_s)
        if not answer.ok:
            raise APIError(f"{answer.status_code} {answer.reason}", response=answer)
        if answer.text != "OK":
            raise NoAnswer("what answers there is no engine")


class Calls(docker.APIClient):
    """The calls of Docker's client, some of which it would wait for without end (docker-py 2651). Those that are
    ``SLOW`` may take ``slow_s``. None goes on for long after ``until``, on the monotonic clock."""

    slow_s, until = SLOW_S, math.inf

    def request(self, method: str, url: str, **named: Any) -> Any:  # type: ignore[override]  # as it is called
        limit_s = self.slow_s if url.endswith(SLOW) else named.get("timeout") or self.timeout
        limit_s = min(limit_s, max(LEAST_S, self.until - time.monotonic()))
        try:
            return super().request(method, url, **{**named, "timeout": limit_s})
        except requests.Timeout as error:
            raise NoAnswer(f"the engine did not answer within {limit_s:g} s") from error
        except (OSError, ValueError) as error:  # with certificates that are none, before anything is sent
            raise NoAnswer(str(error)) from error


def connected(host: str = "", call_s: float = CALL_S) -> Engine:
    """The engine at ``host``, that of ``DOCKER_HOST``, or the machine's own. Nobody is asked yet.

    Raises ``SandboxUnavailable`` where Docker's variables name no place, or certificates that are not there.
    """
    environment = {"DOCKER_HOST": host} if host else None
    try:
        place = str(kwargs_from_env(environment=environment).get("base_url") or USUAL)
    except DockerException as error:
        raise SandboxUnavailable(f"DOCKER_TLS_VERIFY, DOCKER_CERT_PATH: {error}", fix=NAME_CERTIFICATES) from error
    try:
        engine = Engine.from_env(
            version=API,
            timeout=call_s,  # type: ignore[arg-type]  # any number does
            environment=environment,
        )
    except (DockerException, ValueError) as error:
        raise SandboxUnavailable(f"DOCKER_HOST: {place!r} names no engine: {error}", fix=NAME_ENGINE) from error
    assert isinstance(engine, Engine)
    engine.place = place
    return engine


def problem_of(engine: Engine) -> str:
    """Why there is none; empty where one answers.

    Raises ``EnvironmentFailed`` where one is there and does not answer as it should: that may pass. A socket that
    nobody listens on is looked for first: Docker's client leaves one of its own open when it fails.
    """
    place = engine.place.replace("http+unix://", "unix://")
    if place.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            try:
                knocking.connect(place.removeprefix("unix://"))
            except OSError as error:
                return f"{place}: {error.strerror or error}"
    try:
        engine.ping_within(min(PING_S, engine.api.timeout))
    except NoAnswer as error:
        if isinstance(error.__cause__, requests.Timeout):
            raise EnvironmentFailed(f"{place}: {error}", fix=RESTART) from error
        return f"{place}: {error}"
    except DockerException as error:
        raise EnvironmentFailed(f"{place}: {error}", fix=RESTART) from error
    return ""
