"""An image as Docker loads it: layers and a description, named after their bytes."""

import io
import json
import platform
import tarfile
from collections.abc import Sequence
from typing import NamedTuple

from schemas.base import JsonObject, sha256

NEVER = "1970-01-01T00:00:00Z"
"""When an image was made: it is named after what it holds, and that has no time."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Image(NamedTuple):
    """An image that can be loaded. ``id`` is what Docker calls it, on every machine."""

    id: str
    archive: bytes


def image(layers: Sequence[bytes], tag: str, labels: dict[str, str]) -> Image:
    """The image of these layers, the lowest first."""
    described = _described(layers, labels)
    config = json.dumps(described, sort_keys=True, separators=(",", ":")).encode()
    name = sha256(config)
    digits = name.removeprefix("sha256:")
    files = {f"{digits}.json": config, **{_file_of(one): one for one in layers}}
    manifest = [{"Config": f"{digits}.json", "RepoTags": [tag], "Layers": [_file_of(one) for one in layers]}]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as target:
        for path, content in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            about = tarfile.TarInfo(path)
            about.size = len(content)
            target.addfile(about, io.BytesIO(content))
    return Image(name, out.getvalue())


def _file_of(layer: bytes) -> str:
    return f"{sha256(layer).removeprefix('sha256:')}/layer.tar"


def _described(layers: Sequence[bytes], labels: dict[str, str]) -> JsonObject:
    return {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": NEVER,
        "config": {"Labels": dict(labels), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"]},
        "rootfs": {"type": "layers", "diff_ids": [sha256(one) for one in layers]},
        "history": [{"created": NEVER, "created_by": "tiltyard"} for _ in layers],
    }
