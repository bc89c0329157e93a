"""Builds the wheel of the Python package into `dist/python`, without a network: `npm run build:python`.

Needs protoc with its plugin for gRPC, and protobuf, setuptools and wheel for the Python that runs this. Everything is staged in a
separate folder, so that the sources do not change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from write_blocking import write_blocking

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
PACKAGE = "agent_control_plane"
#: Folder in the package for the modules that protoc generates.
MODULES = f"{PACKAGE}/proto"
SHIPPED = ["README.md", "pyproject.toml", PACKAGE]
#: Protos of errors, under other names: other packages contain the official ones, and a process can hold each name only once.
ERRORS = {"google/rpc/status.proto": "rpc_status.proto", "google/rpc/error_details.proto": "rpc_error_details.proto"}
ERRORS_PACKAGE = "agentcontrol.rpc"


def run(*command: str) -> None:
    """Runs a command; ends the build with its exit code if it fails."""
    subprocess.run(command, check=True)


def read_descriptors(protos: Path, scratch: Path) -> FileDescriptorSet:
    """Reads the descriptors of our protos and of the error details."""
    output = scratch / "descriptors.bin"
    own = sorted(str(path.relative_to(protos)) for path in protos.glob("agentcontrol/**/*.proto"))
    sources = ["-I", str(protos), "-I", str(TOP / "proto")]
    run("protoc", *sources, "--include_imports", f"--descriptor_set_out={output}", *own, *ERRORS)
    return FileDescriptorSet.FromString(output.read_bytes())


def module_file(name: str) -> str:
    """Returns the name under which a proto is compiled, whose path becomes the module's."""
    return f"{MODULES}/{ERRORS.get(name, name.rsplit('/', 1)[-1])}"


def adapt(file: FileDescriptorProto) -> FileDescriptorProto:
    """Returns a descriptor whose module is in the package, without options that other packages define.

    A message then has one definition in a process, whatever else is installed: this package does not contain `buf.validate`,
    `google.api` and `google.rpc`, which googleapis-common-protos and protovalidate contain.
    """
    adapted = FileDescriptorProto()
    adapted.CopyFrom(file)
    # Options from other packages are extensions that are not registered here.
    adapted.DiscardUnknownFields()
    adapted.name = module_file(file.name)
    dependencies = [name for name in file.dependency if is_kept(name)]
    adapted.dependency[:] = [name if name.startswith("google/protobuf/") else module_file(name) for name in dependencies]
    if file.name in ERRORS:
        adapted.package = ERRORS_PACKAGE
        for message in adapted.message_type:
            rename_types(message)
    return adapted


def is_kept(name: str) -> bool:
    """Tests for a proto that is part of the package or comes with protobuf."""
    return name.startswith(("agentcontrol/", "google/protobuf/")) or name in ERRORS


def rename_types(message: descriptor_pb2.DescriptorProto) -> None:
    """Changes the references of a message from `google.rpc` to its package here."""
    for field in message.field:
        if field.type_name.startswith(".google.rpc."):
            field.type_name = f".{ERRORS_PACKAGE}.{field.type_name.removeprefix('.google.rpc.')}"
    for nested in message.nested_type:
        rename_types(nested)


def generate(descriptors: FileDescriptorSet, scratch: Path, output: Path) -> None:
    """Compiles the descriptors to modules of messages, their types and their services."""
    adapted = FileDescriptorSet()
    for file in descriptors.file:
        if is_kept(file.name):
            adapted.file.append(file if file.name.startswith("google/protobuf/") else adapt(file))
    source = scratch / "adapted.bin"
    source.write_bytes(adapted.SerializeToString())
    names = [file.name for file in adapted.file if file.name.startswith(f"{MODULES}/")]
    services = [file.name for file in adapted.file if file.service and file.name in names]
    plugin = f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}"
    run("protoc", f"--descriptor_set_in={source}", f"--python_out={output}", f"--pyi_out={output}", *names)
    run("protoc", f"--descriptor_set_in={source}", plugin, f"--grpc_python_out={output}", *services)


def stage(folder: Path) -> Path:
    """Lays out the sources of the wheel: the handwritten ones, their blocking forms, and the modules of the protos."""
    shutil.rmtree(folder, ignore_errors=True)
    staged = folder / "package"
    staged.mkdir(parents=True)
    for name in SHIPPED:
        source = HERE / name
        if source.is_dir():
            shutil.copytree(source, staged / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, staged)
    shutil.copy(TOP / "LICENSE", staged)
    write_blocking(staged / PACKAGE)
    protos = folder / "protos"
    run(str(TOP / "node_modules" / ".bin" / "node"), str(TOP / "proto" / "export.ts"), str(protos))
    generate(read_descriptors(protos, folder), folder, staged)
    (staged / MODULES / "__init__.py").write_text('"""The messages and services of the control plane, generated from its protos."""\n')
    return staged


def build_wheel(staged: Path, output: Path) -> Path:
    """Builds the wheel; returns its path."""
    # setuptools sees the staged project only after `chdir`.
    os.chdir(staged)
    from setuptools import build_meta  # noqa: PLC0415

    output.mkdir(parents=True, exist_ok=True)
    return output / build_meta.build_wheel(str(output))


def main() -> None:
    """Builds into `dist/python`, or into the folder that the first argument names."""
    given = sys.argv[1] if len(sys.argv) > 1 else None
    output = Path(given or TOP / "dist" / "python").resolve()
    staged = stage(TOP / ".generated" / "python" if given is None else output / "staged")
    print(build_wheel(staged, output))


if __name__ == "__main__":
    main()
