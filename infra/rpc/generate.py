"""Make the gRPC stubs and their types from ``schemas/proto``: ``python -m infra.rpc.generate [--check]``.

With ``--check`` nothing is written; it exits 1 when a stub is not what the proto says.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PROTO = HERE.parents[1] / "schemas" / "proto"
GEN = HERE / "gen"
PACKAGE = "infra/rpc/gen"

PLUGINS = ("--python_out", "--grpc_python_out", "--mypy_out", "--mypy_grpc_out")
QUIET = ("--mypy_opt=quiet", "--mypy_grpc_opt=quiet")


def generate(out: Path) -> dict[str, str]:
    """Generate below ``out``; the texts of the stubs by file name."""
    # The virtual path makes the stubs import each other by their full names.
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PACKAGE}={PROTO}", *QUIET]
    command += [f"{plugin}={out}" for plugin in PLUGINS]
    command += [f"{PACKAGE}/{proto.name}" for proto in sorted(PROTO.glob("*.proto"))]
    # The plugins of mypy-protobuf are programs beside the interpreter.
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    subprocess.run(command, check=True, env={"PATH": path})
    return texts(out / PACKAGE)


def texts(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.glob("*_pb2*.py*")}


def main(arguments: list[str], gen: Path = GEN) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        made = generate(Path(scratch))
    found = texts(gen)
    if "--check" in arguments:
        stale = sorted(name for name in made.keys() | found.keys() if made.get(name) != found.get(name))
        if stale:
            print(f"not current: {', '.join(stale)}; run make proto", file=sys.stderr)
        return 1 if stale else 0
    for name in found.keys() - made.keys():
        (gen / name).unlink()
    for name, text in made.items():
        (gen / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
