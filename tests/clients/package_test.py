"""The files of api/clients: generated stubs, module and package metadata, examples, documentation."""
import filecmp
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest

from google.protobuf import json_format

from harness import MODULE, PATIENCE, PYTHON, TOP, go, go_program, python_environment

import svcmap
from fake_agent import FakeAgent
from svcmap import _objects
from svcmap.v1 import control_pb2 as control

CLIENTS = TOP / "api/clients"
# With the maximum number of lines.
EXAMPLES = {"go/examples/sync/main.go": 20, "go/examples/controller/main.go": 36, "python/examples/sync.py": 20,
            "go/examples/fleet/main.go": 20, "python/examples/fleet.py": 20, "cpp/examples/fleet.cc": 25,
            "python/examples/sync_asyncio.py": 20, "python/examples/controller.py": 20}


class Package(unittest.TestCase):
    def test_the_stubs_are_those_of_the_schema(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([CLIENTS / "generate.sh", folder], check=True)
            generated = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
            self.assertGreaterEqual(len(generated), 9)
            for path in generated:
                name = path.relative_to(folder)
                self.assertTrue((CLIENTS / name).is_file() and filecmp.cmp(path, CLIENTS / name, shallow=False),
                                f"api/clients/{name} is outdated: run `make clients`")

    def test_examples_are_short_and_documented(self):
        for name, limit in EXAMPLES.items():
            text = (CLIENTS / name).read_text()
            lines = [line for line in text.splitlines()
                     if line.strip() and not line.lstrip().startswith(("//", "#", '"""'))]
            self.assertLessEqual(len(lines), limit, name)
            document = TOP / "proto/README.md"
            if "controller" in name:
                document = CLIENTS / name.split("/")[0] / "README.md"
            elif "fleet" in name:
                document = TOP / "docs/fleet.md"
            if not name.endswith("_asyncio.py"):
                self.assertIn(f"\n{text.strip()}\n```", document.read_text(), f"{document} does not contain {name}")

    def test_go_code_is_formatted_and_sound(self):
        sources = [str(p) for folder in (CLIENTS / "go", TOP / "tests/clients") for p in folder.rglob("*.go")]
        self.assertEqual(subprocess.run(["gofmt", "-l", *sources], check=True, capture_output=True).stdout, b"")
        tests = MODULE.replace("/api/clients/go", "/tests/clients")
        examples = [f"{MODULE}/examples/{name}" for name in ("controller", "fleet", "sync")]
        go("vet", MODULE, *examples, f"{tests}/bench", f"{tests}/certificates", f"{tests}/driver")

    def test_the_go_code_in_the_documentation_compiles(self):
        _, agent, tls, store = re.findall("```go\n(.*?)```", (CLIENTS / "go/README.md").read_text(), re.S)
        code = f"""package main
import (
"context"; "crypto/tls"; "log"
svcmap "{MODULE}"
"google.golang.org/grpc"; "google.golang.org/grpc/credentials"; "google.golang.org/grpc/status"
)
func documented(ctx context.Context, podName string, term uint64, objects []svcmap.Object, slice, service svcmap.Object) {{
{agent}
log.Print(err, code, reason, metadata)
}}
func tcp(controller svcmap.Controller, config *tls.Config) {{
{tls}}}
func fleet(ctx context.Context, prefix string, objects, changed, deleted []svcmap.Object, config *tls.Config) {{
{store}
log.Print(seq, err)
}}
func main() {{}}
"""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "main.go").write_text(code)
            go("build", "-o", os.devnull, f"{folder}/main.go")

    def test_go_mod_lists_the_imported_modules(self):
        imports = set(re.findall(r'^\t(?:\w+ )?"((?:[a-z]+\.)+[a-z]+/[^"]+)"$', "".join(
            path.read_text() for path in (CLIENTS / "go").rglob("*.go") if not path.name.endswith("_test.go")), re.M))
        self.assertGreater(len(imports), 5)
        modules = re.findall(r"^\t(\S+) v", (CLIENTS / "go/go.mod").read_text(), re.M)
        for name in imports:
            self.assertTrue(name.startswith((MODULE, *modules)), name)

    def test_go_code_needs_only_the_language_version_of_the_module(self):
        version = re.search(r"^go (\S+)", (CLIENTS / "go/go.mod").read_text(), re.M)[1]
        go("build", f"-gcflags=-lang=go{version}", MODULE, f"{MODULE}/svcmapv1")

    def test_the_go_module_is_complete(self):
        """All imports are in the modules of go.mod. Debian's packages are the vendored modules."""
        packages = go("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", MODULE,
                      f"{MODULE}/examples/sync", f"{MODULE}/examples/controller", f"{MODULE}/examples/fleet").split()
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "module")
            shutil.copytree(CLIENTS / "go", module)
            text = (module / "go.mod").read_text()
            required = dict(re.findall(r"^\t(\S+) (v\S+)", text, re.M))
            listed = []
            for name in sorted({*required, "github.com/golang/protobuf", "golang.org/x/net", "golang.org/x/sys",
                                "golang.org/x/text", "google.golang.org/genproto"}):
                (module / "vendor" / name).parent.mkdir(parents=True, exist_ok=True)
                (module / "vendor" / name).symlink_to(pathlib.Path("/usr/share/gocode/src", name))
                listed += [f"# {name} {required.get(name, 'v0.0.0')}"] + ["## explicit"] * (name in required)
                listed += [package for package in packages if f"{package}/".startswith(f"{name}/")]
            (module / "vendor/modules.txt").write_text("\n".join(listed) + "\n")
            go("list", "-deps", "./...", cwd=module, modules=True)

    def test_pyproject_lists_all_packages(self):
        project = tomllib.loads((CLIENTS / "python/pyproject.toml").read_text())
        folder = CLIENTS / "python"
        packages = {str(p.parent.relative_to(folder)).replace("/", ".") for p in folder.rglob("__init__.py")}
        self.assertEqual(set(project["tool"]["setuptools"]["packages"]), packages)
        version = re.search(r"project\(svcmap VERSION ([0-9.]+)", (TOP / "CMakeLists.txt").read_text())
        self.assertEqual(project["project"]["version"], version[1])


class Release(unittest.TestCase):
    def test_the_wheel_and_the_module_archive_can_be_used(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PYTHON, CLIENTS / "package.py", folder], check=True, capture_output=True)
            wheel = next(pathlib.Path(folder).glob("*.whl"))
            self.assertIn(str(wheel), subprocess.run(
                [PYTHON, "-c", "import svcmap.aio; print(svcmap.__file__)"], check=True, capture_output=True,
                text=True, env={**python_environment(), "PYTHONPATH": str(wheel)}).stdout)
            environment = {**os.environ, "GO111MODULE": "on", "GOFLAGS": "-mod=mod -modcacherw", "GOENV": "off",
                           "GOPROXY": f"file://{folder}/goproxy", "GONOSUMDB": "*", "GOPATH": f"{folder}/gopath"}
            version = "v" + re.search(r"-([0-9.]+)-", wheel.name)[1]
            done = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@{version}"], cwd=folder,
                                  env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            downloaded = pathlib.Path(json.loads(done.stdout)["Dir"])
            self.assertEqual((downloaded / "agent.go").read_text(), (CLIENTS / "go/agent.go").read_text())


class Controllers(unittest.TestCase):
    """The controllers that build their objects from fields."""

    def test_they_program_a_node_a_service_and_its_endpoints(self):
        python = [PYTHON, str(CLIENTS / "python/examples/controller.py")]
        for command in (python, [go_program("api/clients/go/examples/controller")]):
            with self.subTest(command), tempfile.TemporaryDirectory() as folder:
                agent = FakeAgent(pathlib.Path(folder, "agent.sock"))
                self.addCleanup(agent.stop)
                subprocess.run([*command, agent.target, "n1", "192.0.2.10", "10.1.0.1", "10.1.0.2"], check=True,
                               env=python_environment(), timeout=PATIENCE)
                self.assertEqual((agent.names(), agent.violations), (["n1", "web", "web-1"], []))
                stored = svcmap.EndpointSlice.FromString(agent.objects[control.KIND_ENDPOINT_SLICE, "shop", "web-1"])
                self.assertEqual([e.addresses[0] for e in stored.endpoints], ["10.1.0.1", "10.1.0.2"])
                self.assertEqual((stored.ports[0].name, stored.ports[0].port), ("http", 8080))


class ParseList(unittest.TestCase):
    def test_parses_lists_of_the_api_server_and_of_kubectl(self):
        metadata = {"namespace": "shop", "name": "web", "resourceVersion": "7"}
        spec = {"clusterIP": "10.96.0.10", "ports": [{"port": 80, "targetPort": "http"}]}
        want = svcmap.Service(metadata={"namespace": "shop", "name": "web"},
                              spec={"cluster_ip": "10.96.0.10", "ports": [{"port": 80}]})
        item = {"metadata": metadata, "spec": spec}
        for value in ({"kind": "ServiceList", "items": [item]}, {"kind": "List", "items": [
                {"kind": "Service", **item}]}, {"kind": "Service", **item}):
            self.assertEqual(svcmap.parse_list(value), [want])
            self.assertEqual(svcmap.parse_list(json.dumps(value)), [want])

    def test_rejects_unknown_fields(self):
        for spec, path in (({"clusterIp": "10.96.0.10"}, "spec.clusterIp"),
                           ({"ports": [{"port": 1}, {"prot": 2}]}, "spec.ports[1].prot")):
            item = {"kind": "Service", "metadata": {"namespace": "shop", "name": "web"}, "spec": spec}
            with self.assertRaises(ValueError) as caught:
                svcmap.parse_list({"kind": "List", "items": [item]})
            self.assertEqual(str(caught.exception), f"items[0]: Service shop/web: {path}: unknown field")
            item["metadata"]["uid"] = "7"  # The API server has checked the object.
            svcmap.parse_list(item)
        with self.assertRaisesRegex(ValueError, "^List: itmes: unknown field$"):
            svcmap.parse_list({"kind": "List", "itmes": []})

    def test_ignores_the_fields_that_svcmapctl_ignores(self):
        text = (TOP / "api/manifests/known_fields.cc").read_text()
        lists = {name: set(re.findall('"(.*?)"', values)) for name, values in
                 re.findall(r"string_view (k\w+)\[\] = \{(.*?)\}", text, re.S)}
        expected = {message: lists[name] for message, name in re.findall(r'\{"(\w+)", (k\w+)\}', text)}
        self.assertIn("ServiceCIDR", expected)
        self.assertEqual(_objects._UNREAD, expected)
        go_text = re.search(r"var unread = .*?\n}", (CLIENTS / "go/objects.go").read_text(), re.S)[0]
        self.assertEqual({message: set("".join(re.findall('"(.*?)"', fields)).split()) for message, fields in
                          re.findall(r'\t"(\w+)":\s*((?:".*?"[\s+]*)+),', go_text)}, expected)

    def test_rejects_other_values(self):
        for text in ("", "[]", "{}", '{"kind": "Pod"}', '{"kind": "List", "items": [{"kind": "Pod"}]}',
                     '{"kind": "Service", "metadata": {"name": 5}}'):
            with self.assertRaises((ValueError, json_format.ParseError), msg=text):
                svcmap.parse_list(text)


if __name__ == "__main__":
    unittest.main()
