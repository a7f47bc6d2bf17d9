"""``tiltyard images``: what Docker sandboxes are made from. It talks to the engine and starts no stack."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ops.cli.failures import DONE
from ops.cli.output import Output, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.sandboxes.docker.images import ImageRecord, Images

SHORT_ID = 12
"""Digits of an id that Docker's own tools show."""


@click.group()
def images() -> None:
    """Build and list the images of Docker sandboxes."""


@images.command(short_help="Build images by NAME, or take one from a registry.")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option(
    "--rootfs",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A tar archive of a root folder with Python, in the place of the base's packages.",
)
@click.option("--pull", metavar="REF", help="Take an image from a registry instead, for tasks that name it.")
@click.pass_obj
@json_option
def build(home: Path | None, names: tuple[str, ...], rootfs: Path | None, pull: str | None, out: Output) -> int:
    """Build images by NAME, without a registry: all, or with --rootfs the base alone when none is named.

    Packages come from the sources of this machine's apt and are kept in the data folder.
    """
    if pull is not None:
        if names or rootfs:
            raise click.UsageError("--pull takes an image as it is: name no other and give no --rootfs.")
        _check_reference(pull)
        with _opened(home, out) as found:
            _show((found.take(pull),), out)
        return DONE
    chosen = _known(names, alone=rootfs is not None)
    packed = rootfs.read_bytes() if rootfs else None
    with _opened(home, out) as found:
        _show(_built(found, chosen, rootfs, packed), out)
    return DONE


@images.command("list", short_help="List the images that are there.")
@click.pass_obj
@json_option
def list_images(home: Path | None, out: Output) -> int:
    """List the images that were built or pulled and that the engine still has."""
    with _opened(home, out) as found:
        _show(found.all(), out)
    return DONE


@contextmanager
def _opened(home: Path | None, out: Output) -> Iterator["Images"]:
    """The images of an engine that answers. Raises ``EnvironmentFailed``, also where none is named."""
    from docker.errors import DockerException

    from infra.sandboxes.docker.engine import connected, problem_of
    from infra.sandboxes.docker.images import Images
    from infra.sandboxes.docker.launcher import START_DOCKER
    from tiltyard.errors import EnvironmentFailed
    from workers.settings import Settings

    folder = Settings.from_environment(home).images
    engine = connected()
    try:
        if problem := problem_of(engine):
            raise EnvironmentFailed(f"no Docker engine answers: {problem}", fix=START_DOCKER)
        yield Images(engine, folder, out.note)
    except (DockerException, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:  # a file of ours, and not the engine
            raise
        raise EnvironmentFailed(
            f"the Docker engine failed: {error}", fix="see whether `docker info` answers, and its log"
        ) from error
    finally:
        engine.close()


def _known(names: "Sequence[str]", *, alone: bool) -> tuple[str, ...]:
    """The recipes to build, each once. Raises ``BadInput``."""
    from difflib import get_close_matches

    from infra.sandboxes.docker.recipes import BASE, RECIPES
    from tiltyard.errors import BadInput

    for name in names:
        if name not in RECIPES:
            close = get_close_matches(name, RECIPES, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            known = ", ".join(RECIPES)
            fix = f"{meant}known images: {known}; for one of a registry `tiltyard images build --pull REF`"
            raise BadInput(f"there is no image {name!r}", field="NAME", fix=fix)
    return tuple(dict.fromkeys(names or ((BASE,) if alone else RECIPES)))


def _check_reference(reference: str) -> None:
    """Raises ``BadInput`` for one that would stand in the place of an image that is built."""
    from infra.sandboxes.docker.recipes import RECIPES
    from schemas.sandbox import IMAGE_REFERENCE
    from tiltyard.errors import BadInput

    if not IMAGE_REFERENCE.fullmatch(reference):
        what = f"{reference!r} is no image's reference" if reference.strip() else "the reference is empty"
        raise BadInput(what, field="--pull", fix="name an image, such as debian:12-slim")
    if reference in RECIPES:
        told = f"docker.io/library/{reference}"
        fix = f"build it (`tiltyard images build {reference}`), or say the registry too: {told}"
        raise BadInput(f"{reference!r} is the name of an image that is built", field="--pull", fix=fix)


def _built(
    found: "Images", names: tuple[str, ...], rootfs: Path | None, packed: bytes | None
) -> tuple["ImageRecord", ...]:
    """Raises ``BadInput`` for a file that is no tar archive, or has no Python where it is looked for."""
    from tarfile import TarError

    from docker.errors import APIError

    from tiltyard.errors import BadInput

    try:
        return found.build(names, packed)
    except (TarError, EOFError, ValueError) as error:
        if rootfs is None:
            raise
        why = next(iter(str(error).splitlines()), "it ends too early")
        fix = "give a tar archive of a root folder, such as `docker export` writes"
        raise BadInput(f"{rootfs} cannot be used: {why}", field="--rootfs", fix=fix) from error
    except APIError as error:
        if rootfs is None or "/usr/bin/python3" not in str(error):
            raise
        fix = "give a root folder with Python 3 and its standard library"
        raise BadInput(f"{rootfs} has no /usr/bin/python3", field="--rootfs", fix=fix) from error


def _show(records: "Sequence[ImageRecord]", out: Output) -> None:
    out.value({"images": [one.model_dump() for one in records]})
    if not records:
        out.show("no images yet: `tiltyard images build` makes them, and so does the first task that needs one")
        return
    out.table(("IMAGE", "ID", "#SIZE", "#PACKAGES"), [_row(one) for one in records])


def _row(record: "ImageRecord") -> tuple[str, ...]:
    size = f"{record.bytes / 1e6:.1f} MB"
    return (record.name, short(record.id), size, str(len(record.packages)))


def short(name: str) -> str:
    """An image's id as Docker's own tools show it."""
    return name.removeprefix("sha256:")[:SHORT_ID]
