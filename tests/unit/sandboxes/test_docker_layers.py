"""Layers of images: what packages hold, and nothing of who built them, when, or with which rights."""

import io
import json
import tarfile

import pytest

from infra.sandboxes.docker import archive, layers
from infra.sandboxes.docker.layers import Members
from infra.sandboxes.docker.packages import _INSTALLS, _file_of
from infra.sandboxes.docker.profile import profile
from infra.sandboxes.seccomp import MISSING, REFUSED
from schemas.base import sha256


def tar(*members: tuple[str, dict[str, object], bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as target:
        for name, fields, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            for field, value in fields.items():
                setattr(about, field, value)
            target.addfile(about, io.BytesIO(content))
    return out.getvalue()


def listed(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as source:
        return {one.name: one for one in source}


def read(*members: tuple[str, dict[str, object], bytes]) -> Members:
    return layers.of_archives([tar(*members)])


def test_a_layer_says_nothing_of_who_made_it_and_when() -> None:
    first = read(("./usr/bin/b", {"mtime": 5, "uid": 7, "uname": "me"}, b"b"), ("./usr/bin/a", {}, b"a"))
    second = read(("usr/bin/a", {"mtime": 9}, b"a"), ("usr/bin/b", {"gid": 3}, b"b"))
    assert layers.layer(first) == layers.layer(second)
    assert list(listed(layers.layer(first))) == ["usr/bin/a", "usr/bin/b"]


def test_no_program_gains_rights_by_its_owner() -> None:
    made = listed(
        layers.layer(read(("usr/bin/su", {"mode": 0o4755}, b""), ("usr/bin/wall", {"mode": 0o2755}, b"")))
    )
    assert [one.mode for one in made.values()] == [0o755, 0o755]


def test_a_merged_usr_and_what_nobody_needs() -> None:
    members = read(
        ("./bin/sh", {}, b"sh"), ("./usr/share/doc/x", {}, b"x"), ("./lib", {"type": tarfile.DIRTYPE}, b"")
    )
    assert set(members) == {"usr/bin/sh", "lib"}


def test_links_stay_links_and_devices_are_left_out() -> None:
    members = read(
        ("bin/a", {}, b"a"),
        ("bin/hard", {"type": tarfile.LNKTYPE, "linkname": "./bin/a"}, b""),
        ("bin/soft", {"type": tarfile.SYMTYPE, "linkname": "../a"}, b""),
        ("dev/null", {"type": tarfile.CHRTYPE}, b""),
    )
    made = listed(layers.layer(members))
    assert list(made) == ["usr/bin/a", "usr/bin/soft", "usr/bin/hard"], "a hard link comes after what it names"
    assert made["usr/bin/hard"].linkname == "usr/bin/a"
    assert made["usr/bin/soft"].linkname == "../a"


@pytest.mark.parametrize("name", ["../etc/passwd", "a/../../b"])
def test_a_path_that_leads_out_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="out of the root"):
        read((name, {}, b""))


def test_an_image_is_named_after_what_it_holds() -> None:
    lowest, top = layers.layer(read(("a", {}, b"a"))), layers.layer(read(("b", {}, b"b")))
    made = archive.image([lowest, top], "tiltyard/x:latest", {"tiltyard": "image"})
    assert made == archive.image([lowest, top], "tiltyard/x:latest", {"tiltyard": "image"})
    assert made.id != archive.image([top, lowest], "tiltyard/x:latest", {"tiltyard": "image"}).id
    with tarfile.open(fileobj=io.BytesIO(made.archive)) as source:
        (manifest,) = json.loads(source.extractfile("manifest.json").read())  # type: ignore[union-attr]
        config = source.extractfile(manifest["Config"]).read()  # type: ignore[union-attr]
    assert sha256(config) == made.id
    assert json.loads(config)["rootfs"]["diff_ids"] == [sha256(lowest), sha256(top)]


def test_what_apt_would_install_names_its_files() -> None:
    first, second = "Inst libc6 (2.36-9+deb12u14 Debian:12.15/oldstable [amd64]) []", "Inst a (1:2-3 D [all])"
    said = f"{first}\nConf libc6 (x [amd64])\n{second}\n"
    files = [_file_of(*found.groups()) for found in _INSTALLS.finditer(said)]
    assert files == ["libc6_2.36-9+deb12u14_amd64.deb", "a_1%3a2-3_all.deb"]


def test_the_profile_refuses_what_the_filter_refuses() -> None:
    rules = json.loads(profile("x86_64"))["syscalls"]
    whole = {name for rule in rules if not rule["args"] for name in rule["names"]}
    assert {*REFUSED, *MISSING} <= whole
    assert {"clone", "ioctl", "socket", "prlimit64"} <= {
        name for rule in rules if rule["args"] for name in rule["names"]
    }
