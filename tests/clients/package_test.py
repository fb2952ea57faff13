"""The files of api/clients: generated stubs, module and package metadata, examples, documentation."""
import filecmp
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest

from google.protobuf import json_format

from harness import MODULE, TOP, go

import svcmap

CLIENTS = TOP / "api/clients"
EXAMPLES = ("go/examples/sync/main.go", "python/examples/sync.py", "python/examples/sync_asyncio.py")


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

    def test_examples_have_at_most_20_lines_and_are_documented(self):
        documentation = (TOP / "proto/README.md").read_text()
        for name in EXAMPLES:
            text = (CLIENTS / name).read_text()
            lines = [line for line in text.splitlines()
                     if line.strip() and not line.lstrip().startswith(("//", "#", '"""'))]
            self.assertLessEqual(len(lines), 20, name)
            if not name.endswith("_asyncio.py"):
                self.assertIn(f"\n{text.strip()}\n```", documentation, f"proto/README.md does not contain {name}")

    def test_go_code_is_formatted_and_sound(self):
        sources = [str(p) for folder in (CLIENTS / "go", TOP / "tests/clients") for p in folder.rglob("*.go")]
        self.assertEqual(subprocess.run(["gofmt", "-l", *sources], check=True, capture_output=True).stdout, b"")
        tests = MODULE.replace("/api/clients/go", "/tests/clients")
        go("vet", MODULE, f"{MODULE}/examples/sync", f"{tests}/bench", f"{tests}/certificates", f"{tests}/driver")

    def test_go_mod_lists_the_imported_modules(self):
        imports = set(re.findall(r'"((?:[a-z]+\.)+[a-z]+/[^"]+)"', "".join(
            path.read_text() for path in (CLIENTS / "go").rglob("*.go") if not path.name.endswith("_test.go"))))
        modules = re.findall(r"^\t(\S+) v", (CLIENTS / "go/go.mod").read_text(), re.M)
        for name in imports:
            self.assertTrue(name.startswith((MODULE, *modules)), name)

    def test_go_code_needs_only_the_language_version_of_the_module(self):
        version = re.search(r"^go (\S+)", (CLIENTS / "go/go.mod").read_text(), re.M)[1]
        go("build", f"-gcflags=-lang=go{version}", MODULE, f"{MODULE}/svcmapv1")

    def test_the_go_module_is_complete(self):
        """All imports are in the modules of go.mod. Debian's packages are the vendored modules."""
        packages = go("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", MODULE,
                      f"{MODULE}/examples/sync").split()
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

    def test_rejects_other_values(self):
        for text in ("", "[]", "{}", '{"kind": "Pod"}', '{"kind": "List", "items": [{"kind": "Pod"}]}',
                     '{"kind": "Service", "metadata": {"name": 5}}'):
            with self.assertRaises((ValueError, json_format.ParseError), msg=text):
                svcmap.parse_list(text)


if __name__ == "__main__":
    unittest.main()
