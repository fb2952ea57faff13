#!/usr/bin/python3
"""Prints options and command with which podman runs a container of a pod in deploy/kubernetes.

pod_as_podman.py OVERLAY CONTAINER FOLDER options: prints the options of `podman run`, one per line,
except for network options. Creates a directory or file in FOLDER for each volume, and writes the files
of the overlay's ConfigMap.
pod_as_podman.py OVERLAY CONTAINER FOLDER command: prints the command of the container, one word per line.
"""

import os
import pathlib
import subprocess
import sys

import yaml

NODE_NAME = "node-1"

overlay, name, folder, what = sys.argv[1:]
top = pathlib.Path(__file__).resolve().parents[1]
built = subprocess.run(["kubectl", "kustomize", top / "deploy/kubernetes" / overlay],
                       capture_output=True, text=True)
if built.returncode != 0:
    sys.exit(built.stderr)
objects = {o["kind"]: o for o in yaml.safe_load_all(built.stdout)}
pod = objects["DaemonSet"]["spec"]["template"]["spec"]
container = next(c for c in pod.get("initContainers", []) + pod["containers"] if c["name"] == name)

if what == "command":
    for word in container["command"] + container["args"]:
        print(word.replace("$(NODE_NAME)", NODE_NAME))
    sys.exit()

# podman's default profile is equivalent to RuntimeDefault.
assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
if pod.get("hostPID"):
    print("--pid=host")
context = container["securityContext"]
if "runAsUser" in context:
    print(f"--user={context['runAsUser']}:{context['runAsGroup']}")
if context.get("privileged"):
    print("--privileged")
if context["readOnlyRootFilesystem"]:
    print("--read-only")
    print("--read-only-tmpfs=false")
if not context.get("allowPrivilegeEscalation", True):
    print("--security-opt=no-new-privileges")
capabilities = context.get("capabilities", {})
for capability in capabilities.get("drop", []):
    print(f"--cap-drop={capability}")
for capability in capabilities.get("add", []):
    print(f"--cap-add={capability}")

volumes = {v["name"]: v for v in pod["volumes"]}
for mount in container["volumeMounts"]:
    path = pathlib.Path(folder, mount["name"])
    volume = volumes[mount["name"]]
    if volume.get("hostPath", {}).get("type") == "FileOrCreate":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    else:
        path.mkdir(parents=True, exist_ok=True)
    if "emptyDir" in volume:
        os.chmod(path, 0o777)  # The kubelet creates emptyDir volumes with this mode.
    if "configMap" in volume and "ConfigMap" in objects:
        assert volume["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
        for key, value in objects["ConfigMap"]["data"].items():
            (path / key).write_text(value)
    print(f"--volume={path}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}")
