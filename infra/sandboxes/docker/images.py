"""Images for sandboxes: built without a registry, or taken from one, and known by their ids.

An image is layers on top of each other: the base's packages, the byte code of their Python, and what a template
adds. Equal packages make an equal image, wherever it is built: its id says what an episode ran in.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import docker
from docker.errors import ImageNotFound

from infra.local.state import write_atomically
from infra.sandboxes.docker import archive, layers, packages, recipes
from infra.sandboxes.docker.layers import Members
from infra.sandboxes.docker.passing import end_left, marks
from infra.sandboxes.docker.places import ETC, LABEL
from infra.sandboxes.docker.pulling import pull
from schemas.base import Model, sha256
from tiltyard.errors import BadInput, EnvironmentFailed

COMPILE = (
    "import compileall, py_compile as p, sysconfig; "
    "place = sysconfig.get_path('stdlib'); "
    "compileall.compile_dir(place, quiet=2, workers=1, invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH); "
    "print(place)"
)
"""Packages come without byte code: the scripts that make it at an installation are run by nobody here."""


class ImageRecord(Model):
    """An image that is there. ``id`` is Docker's; ``packages`` are the files that it was made of."""

    name: str
    id: str
    bytes: int
    packages: tuple[str, ...] = ()


class Base(NamedTuple):
    """What every image begins with."""

    packages: tuple[Path, ...]
    members: Members
    layers: tuple[bytes, ...]


class Images:
    """The images of one engine. ``folder`` keeps the packages, and what is known of each image."""

    def __init__(
        self, engine: docker.DockerClient, folder: Path, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._engine, self._folder, self._tell = engine, folder, tell

    def recorded(self, name: str) -> ImageRecord | None:
        """What was built or taken under this name; whether the engine still has it is another question."""
        try:
            return ImageRecord.model_validate_json(self._file(name).read_bytes())
        except (OSError, ValueError):
            return None

    def find(self, name: str) -> ImageRecord | None:
        """What was built or taken under this name, if the engine still has it."""
        record = self.recorded(name)
        try:
            if record is not None:
                self._engine.images.get(record.id)
        except ImageNotFound:
            return None
        return record

    def get(self, name: str) -> ImageRecord:
        """What is there under this name; built, or taken from its registry, if there is nothing yet."""
        found = self.find(name)
        if found is not None:
            return found
        return self.build([name])[0] if name in recipes.RECIPES else self.take(name)

    def all(self) -> tuple[ImageRecord, ...]:
        """All that are there, by name."""
        files = sorted(self._folder.glob("*.json"))
        names = [ImageRecord.model_validate_json(file.read_bytes()).name for file in files]
        return tuple(record for name in sorted(names) if (record := self.find(name)) is not None)

    def build(self, names: Sequence[str], rootfs: bytes | None = None) -> tuple[ImageRecord, ...]:
        """Build some of ``RECIPES``; again: the same. ``rootfs`` is a tar archive in the base packages' place.

        Raises ``BadInput`` for an unknown name and ``EnvironmentFailed``.
        """
        for name in names:
            if name not in recipes.RECIPES:
                known = ", ".join(recipes.RECIPES)
                raise BadInput(f"there is no image {name!r}", field="image", fix=f"use one of {known}")
        self._folder.mkdir(parents=True, exist_ok=True)
        end_left(self._engine, self._folder)
        base = self._base(rootfs)
        return tuple(self._build(name, base) for name in names)

    def take(self, reference: str) -> ImageRecord:
        """An image of a registry. Raises as ``pull`` does."""
        self._tell(f"pulling {reference}")
        return self._keep(reference, pull(self._engine, reference), ())

    def _base(self, rootfs: bytes | None) -> Base:
        if rootfs is None:
            self._tell("fetching packages of the base")
            wanted = packages.fetch(recipes.packages_of(recipes.BASE), self._folder / "packages")
            members = layers.of_archives(map(packages.unpacked, wanted))
        else:
            wanted, members = (), layers.of_archives([rootfs])
        members |= _own(members)
        lowest = layers.layer(members)
        self._tell("compiling its Python")
        code = layers.layer(self._byte_code([lowest]))
        return Base(wanted, members, (lowest, code))

    def _build(self, name: str, base: Base) -> ImageRecord:
        if name == recipes.BASE:
            return self._load(name, base.layers, base.packages)
        self._tell(f"fetching packages of {name}")
        wanted = packages.fetch(recipes.packages_of(name), self._folder / "packages")
        added = layers.of_archives(packages.unpacked(one) for one in wanted if one not in base.packages)
        top = layers.layer({path: member for path, member in added.items() if path not in base.members})
        return self._load(name, (*base.layers, top), wanted)

    def _load(self, name: str, stacked: Sequence[bytes], wanted: Sequence[Path]) -> ImageRecord:
        made = archive.image(stacked, f"tiltyard/{name}:latest", {LABEL: "image"})
        self._tell(f"loading {name}")
        (loaded,) = self._engine.images.load(made.archive)
        assert loaded.id == made.id, "Docker names an image after its description"
        return self._keep(name, loaded.attrs, tuple(one.stem for one in wanted))

    def _keep(self, name: str, attributes: dict[str, Any], made_of: tuple[str, ...]) -> ImageRecord:
        record = ImageRecord(name=name, id=attributes["Id"], bytes=attributes["Size"], packages=made_of)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(name), record.model_dump_json(indent=1))
        return record

    def _byte_code(self, stacked: Sequence[bytes]) -> Members:
        """Of the standard library, made by the image's own Python in a container that ends with it."""
        raw = archive.image(stacked, "tiltyard/raw:latest", {LABEL: "image"})
        self._engine.images.load(raw.archive)
        container = self._engine.containers.create(
            raw.id,
            ["/usr/bin/python3", "-I", "-S", "-c", COMPILE],
            network_mode="none",
            environment={"PYTHONHASHSEED": "0"},
            labels=marks(self._folder),
        )
        try:
            container.start()
            if container.wait()["StatusCode"]:
                raise EnvironmentFailed(f"the image's Python does not work: {container.logs().decode()[-300:]}")
            place = container.logs().decode().strip()
            found: Members = {}
            layers.read(b"".join(container.get_archive(place)[0]), found, below=str(Path(place).parent))
        finally:
            container.remove(force=True)
        return {path: member for path, member in found.items() if path.endswith(".pyc")}

    def _file(self, name: str) -> Path:
        return self._folder / f"{sha256(name.encode())[7:23]}.json"


def _own(members: Members) -> Members:
    """What a root has beside its packages: the links of a merged ``/usr``, its users, and places to mount on."""
    links = [name for name in layers.USR_MERGED if any(path.startswith(f"usr/{name}/") for path in members)]
    made = [layers.link(name, f"usr/{name}") for name in links]
    made += [layers.file(f"etc/{name}", text.encode()) for name, text in ETC.items()]
    made += [layers.folder(place) for place in ("work", "tmp", "proc", "sys", "dev", "ctl")]
    made += [layers.link("usr/bin/awk", "gawk")]
    return {member.about.name: member for member in made}
