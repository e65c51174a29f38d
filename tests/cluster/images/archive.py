"""Writes and reads docker-archives, the tar that `docker save` makes, by hand.

The same content gives the same bytes, so the identity of an image is that of what is in it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_image(
    target: Path, reference: str, files: Mapping[str, bytes], *, entrypoint: list[str], user: str
) -> None:
    """Write an image of one layer.

    Args:
        target: the archive to write.
        reference: the image's name and tag.
        files: path inside the image, without a leading slash, and content; all are executable.
        entrypoint: command line of the image.
        user: numeric `uid:gid` that runs it.
    """
    layer = _tar({name: (content, 0o755) for name, content in files.items()})
    layer_digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": _architecture(),
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "User": user},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        },
        sort_keys=True,
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{layer_digest}.tar"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": [layer_name]}]
    content = {config_name: config, layer_name: layer}
    content["manifest.json"] = json.dumps(manifest).encode()
    part = target.with_suffix(".part")
    part.write_bytes(_tar({name: (data, 0o644) for name, data in content.items()}))
    part.replace(target)


def archive_identity(archive: Path) -> str:
    """What tells two images apart: the digest of the configuration, which names the layers.

    Raises:
        ValueError: it is not a docker-archive of one image.
    """
    return str(_manifest(archive)["Config"]).removesuffix(".json")


def archive_layers(archive: Path) -> list[str]:
    """The layers of an image from the lowest up, each by its digest; raises as above."""
    return [str(layer) for layer in _manifest(archive)["Layers"]]


def _manifest(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as tar:
        member = tar.extractfile("manifest.json")
        if member is None:
            raise ValueError(f"{archive} has no manifest.json; write it as a docker-archive")
        images = json.load(member)
    if len(images) != 1:
        raise ValueError(f"{archive} holds {len(images)} images; one is expected")
    return images[0]


def _tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _architecture() -> str:
    import platform

    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
