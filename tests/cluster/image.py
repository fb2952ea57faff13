"""Writes an archive that `ctr images import` and `podman load` read: image.py ARCHIVE ROOT.

Standard input has one line for each image: names separated by commas, a space, and the image's
configuration in JSON. All images of an archive have the same single layer.
"""

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main():
    archive_path, root = sys.argv[1:]
    layer_path = archive_path + ".layer"
    subprocess.run(["tar", "-C", root, "--sort=name", "-cf", layer_path, "."], check=True)
    with open(layer_path, "rb") as layer:
        digest = hashlib.file_digest(layer, "sha256").hexdigest() if hasattr(hashlib, "file_digest") \
            else hashlib.sha256(layer.read()).hexdigest()
    manifest = []
    with tarfile.open(archive_path + ".part", "w") as archive:

        def add(name, data):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))

        archive.add(layer_path, digest + ".tar")
        for line in sys.stdin:
            names, _, config = line.strip().partition(" ")
            document = json.dumps({
                "architecture": ARCHITECTURES[platform.machine()],
                "os": "linux",
                "config": {"Env": [PATH], **json.loads(config)},
                "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
                # Otherwise two images with equal configurations would be one image.
                "history": [{"created_by": names}],
            }).encode()
            name = hashlib.sha256(document).hexdigest() + ".json"
            add(name, document)
            manifest.append({"Config": name, "RepoTags": names.split(","), "Layers": [digest + ".tar"]})
        add("manifest.json", json.dumps(manifest).encode())
    subprocess.run(["rm", layer_path], check=True)
    subprocess.run(["mv", archive_path + ".part", archive_path], check=True)


main()
