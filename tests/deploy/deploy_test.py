"""Tests of the manifests and systemd units in deploy/: they build, request no unnecessary permissions,
and match the flags of the binaries. SVCMAP_BIN is the directory of the binaries."""

import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import jsonschema
import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = TOP / "deploy/kubernetes"
HELM = TOP / "deploy/helm"
SYSTEMD = TOP / "deploy/systemd"
BIN = pathlib.Path(os.environ.get("SVCMAP_BIN", TOP / "build/release/bin"))

OF_KUBEADM = ("kubeadm", "kubeadm-sysctls", "take-over")
WITH_BRIDGE = ("base", "side-by-side", *OF_KUBEADM)
WITH_SOURCE = (*WITH_BRIDGE, "etcd")  # svcmap-kube or svcmap-etcd beside svcmapd.
AGENTS = (*WITH_SOURCE, "push")
ALL = (*AGENTS, "cleanup")
API_VERSIONS = {"ConfigMap": "v1", "ServiceAccount": "v1", "DaemonSet": "apps/v1",
                "ClusterRole": "rbac.authorization.k8s.io/v1", "ClusterRoleBinding": "rbac.authorization.k8s.io/v1"}


def run(*argv, stdin=None):
    ended = subprocess.run(argv, input=stdin, capture_output=True, text=True)
    assert ended.returncode == 0, f"{' '.join(map(str, argv))}: {ended.stderr}"
    return ended.stdout


@functools.cache
def built(overlay):
    """Returns the objects of an overlay by kind."""
    text = run("kubectl", "kustomize", str(KUBERNETES / overlay))
    objects = [o for o in yaml.safe_load_all(text) if o]
    by_kind = {o["kind"]: o for o in objects}
    assert len(by_kind) == len(objects), f"{overlay}: two objects of a kind"
    return by_kind


def pod(overlay):
    return built(overlay)["DaemonSet"]["spec"]["template"]["spec"]


def container(overlay, name):
    return next((c for c in pod(overlay)["containers"] if c["name"] == name), None)


def source_of(overlay):
    return container(overlay, "svcmap-etcd" if overlay == "etcd" else "svcmap-kube")


def containers(overlay):
    return pod(overlay)["containers"] + pod(overlay).get("initContainers", [])


@functools.cache
def flags_of(program):
    return set(re.findall(r"--[a-z][a-z-]*", run(str(BIN / program), "--help")))


def flag_values(container):
    return dict(argument.split("=", 1) for argument in container["args"] if "=" in argument)


def config_of(overlay):
    return yaml.safe_load(built(overlay)["ConfigMap"]["data"]["config.conf"])


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def lost(before, after, path=""):
    """Returns the paths of values that are in `before` and missing in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [p for k, v in before.items() for p in lost(v, after.get(k), f"{path}.{k}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        return [p for i, v in enumerate(before) for p in lost(v, after[i], f"{path}[{i}]")]
    return [] if before == after else [path]


def each(overlays):
    """Runs a test for each of these overlays."""
    def decorate(test):
        @functools.wraps(test)
        def all_of_them(self):
            for overlay in overlays:
                with self.subTest(overlay):
                    test(self, overlay)
        return all_of_them
    return decorate


class Cluster(unittest.TestCase):
    def test_every_folder_is_known_here_and_every_file_is_used(self):
        folders = {f.parent.name for f in KUBERNETES.glob("*/kustomization.yaml")}
        self.assertEqual(folders, {*ALL, "agent", "bridge"})
        for file in KUBERNETES.glob("*/*"):
            text = (file.parent / "kustomization.yaml").read_text()
            self.assertTrue(file.name == "kustomization.yaml" or file.name in text, file)

    @each(ALL)
    def test_kubernetes_knows_every_field(self, overlay):
        daemon_set = built(overlay)["DaemonSet"]
        # kubectl parses manifests into its own types for patches, and drops unknown fields.
        changed = run("kubectl", "set", "env", "--local", "-f", "-", "-o", "yaml", "ADDED=1",
                      stdin=yaml.safe_dump(daemon_set))
        self.assertIn("ADDED", changed)
        self.assertEqual(lost(daemon_set, yaml.safe_load(changed)), [])

    @each(ALL)
    def test_all_is_in_kube_system_and_chosen_by_its_label(self, overlay):
        for kind, o in built(overlay).items():
            self.assertEqual(o["apiVersion"], API_VERSIONS[kind])
            if not kind.startswith("Cluster"):
                self.assertEqual(o["metadata"]["namespace"], "kube-system")
        spec = built(overlay)["DaemonSet"]["spec"]
        self.assertEqual(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"])

    @each(ALL)
    def test_pods_run_on_every_node_before_all_others(self, overlay):
        spec = pod(overlay)
        self.assertEqual(spec["priorityClassName"], "system-node-critical")
        self.assertEqual(spec["tolerations"], [{"operator": "Exists"}])
        self.assertEqual(spec["nodeSelector"], {"kubernetes.io/os": "linux"})
        self.assertTrue(spec["hostNetwork"])
        self.assertNotIn("hostIPC", spec)

    @each(ALL)
    def test_only_who_removes_rules_of_kube_proxy_sees_the_nodes_processes(self, overlay):
        self.assertEqual(pod(overlay).get("hostPID", False), overlay == "take-over")

    @each(ALL)
    def test_net_admin_is_the_only_right_on_the_node(self, overlay):
        self.assertEqual(pod(overlay)["securityContext"],
                         {"seccompProfile": {"type": "RuntimeDefault"}})
        # Removing chains of iptables-legacy needs a raw socket.
        capabilities = ["NET_ADMIN"] + ["NET_RAW"] * (overlay == "take-over")
        for c in containers(overlay):
            context = c["securityContext"]
            self.assertTrue(context["readOnlyRootFilesystem"])
            if c["name"] == "sysctls":
                continue
            self.assertFalse(context["allowPrivilegeEscalation"])
            self.assertNotIn("privileged", context)
            self.assertNotIn("seccompProfile", context)
            self.assertEqual(context["capabilities"]["drop"], ["ALL"])
            self.assertEqual(context["capabilities"].get("add", []),
                             capabilities if c["name"] == "svcmapd" else [])
            self.assertEqual(context.get("runAsNonRoot", False), c["name"] != "svcmapd")

    @each(ALL)
    def test_only_who_writes_sysctls_is_privileged(self, overlay):
        privileged = [c["name"] for c in containers(overlay)
                      if c["securityContext"].get("privileged")]
        self.assertEqual(privileged, ["sysctls"] if overlay == "kubeadm-sysctls" else [])

    @each(ALL)
    def test_rights_are_given_to_root_who_alone_has_them(self, overlay):
        # A process of a non-root user loses the capabilities of its container at exec. The default user
        # of the image is not root, so the manifest must set the user.
        for c in containers(overlay):
            context = c["securityContext"]
            if context.get("privileged") or context.get("capabilities", {}).get("add"):
                with self.subTest(c["name"]):
                    self.assertEqual((context.get("runAsUser"), context.get("runAsGroup")), (0, 0))

    def test_sysctls_are_written_and_that_is_all(self):
        init = pod("kubeadm-sysctls")["initContainers"]
        self.assertEqual([c["name"] for c in init], ["sysctls"])
        self.assertIn("--init-only", init[0]["args"])

    @each(WITH_BRIDGE)
    def test_the_api_server_is_only_read(self, overlay):
        resources = {"nodes", "services", "endpointslices", "servicecidrs"}
        rules = built(overlay)["ClusterRole"]["rules"]
        self.assertEqual({r for rule in rules for r in rule["resources"]}, resources)
        self.assertEqual({v for rule in rules for v in rule["verbs"]}, {"list", "watch"})
        self.assertNotIn("Role", built(overlay))

    @each(ALL)
    def test_the_token_is_for_the_bridge_alone(self, overlay):
        self.assertFalse(pod(overlay)["automountServiceAccountToken"])
        readers = [c["name"] for c in containers(overlay)
                   for m in c.get("volumeMounts", []) if m["name"] == "token"]
        self.assertEqual(readers, ["svcmap-kube"] if overlay in WITH_BRIDGE else [])
        # With different users and without fsGroup, the kubelet makes the token readable for all users
        # of the pod.
        self.assertNotIn("fsGroup", pod(overlay)["securityContext"])

    @each(("etcd", "push", "cleanup"))
    def test_without_a_bridge_there_are_no_rights_at_all(self, overlay):
        self.assertLessEqual(set(built(overlay)), {"DaemonSet", "ConfigMap"})
        self.assertNotIn("serviceAccountName", pod(overlay))

    @each(WITH_SOURCE)
    def test_the_source_may_write_to_the_agent(self, overlay):
        agent, source = container(overlay, "svcmapd"), source_of(overlay)
        self.assertEqual(flag_values(agent)["--allow-write-uid"],
                         str(source["securityContext"]["runAsUser"]))
        paths = [next(m["mountPath"] for m in c["volumeMounts"] if m["name"] == "run")
                 for c in (agent, source)]
        self.assertEqual(paths, ["/run/svcmap"] * 2)
        self.assertEqual(flag_values(source)["--agent"], "unix:///run/svcmap/svcmap.sock")

    def test_the_files_of_etcd_are_mounted_for_its_source_alone(self):
        readers = {c["name"]: m for c in containers("etcd") for m in c["volumeMounts"]
                   if m["name"] == "etcd-tls"}
        self.assertEqual(set(readers), {"svcmap-etcd"})
        flags = flag_values(source_of("etcd"))
        for flag, key in (("--etcd-ca", "ca.crt"), ("--etcd-cert", "tls.crt"), ("--etcd-key", "tls.key")):
            self.assertEqual(flags[flag], f"{readers['svcmap-etcd']['mountPath']}/{key}")

    def test_the_address_in_the_status_is_that_of_the_agent(self):
        agent, source = container("etcd", "svcmapd"), source_of("etcd")
        self.assertIn(f"--listen={flag_values(source)['--agent-address']}", agent["args"])
        self.assertIn(f"--listen={flag_values(source)['--agent']}", agent["args"])
        for c in (agent, source):
            node_ip = next(e["valueFrom"] for e in c["env"] if e["name"] == "NODE_IP")
            self.assertEqual(node_ip, {"fieldRef": {"fieldPath": "status.hostIP"}})
        mount = next(m for m in agent["volumeMounts"] if m["name"] == "agent-tls")
        flags = flag_values(agent)
        for flag, key in (("--tls-client-ca", "ca.crt"), ("--tls-cert", "tls.crt"), ("--tls-key", "tls.key")):
            self.assertEqual(flags[flag], f"{mount['mountPath']}/{key}")

    def test_the_flags_of_etcd_are_valid(self):
        # svcmap-etcd checks its other flags before --healthz-bind-address.
        arguments = [re.sub("(--healthz-bind-address)=.*", r"\1=none", a).replace("$(NODE_IP)", "192.0.2.1")
                     for a in source_of("etcd")["args"]]
        ended = subprocess.run([BIN / "svcmap-etcd", *arguments], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 2)
        self.assertIn('--healthz-bind-address: Invalid value: "none"', ended.stderr)

    @each(ALL)
    def test_every_flag_is_one_of_the_program(self, overlay):
        for c in containers(overlay):
            for argument in c["args"]:
                self.assertIn(argument.split("=")[0], flags_of(c["command"][0]))

    @each(ALL)
    def test_every_mount_has_a_volume_and_every_volume_a_mount(self, overlay):
        mounted = {m["name"] for c in containers(overlay) for m in c.get("volumeMounts", [])}
        self.assertEqual(mounted, {v["name"] for v in pod(overlay)["volumes"]})
        for volume in pod(overlay)["volumes"]:
            self.assertEqual(len(volume), 2, f"{volume} is of two kinds")

    @each(AGENTS)
    def test_probes_ask_where_the_configuration_says(self, overlay):
        # kubeadm's ConfigMap does not set the port, so the default is used (S-295).
        port = 10256
        if "ConfigMap" in built(overlay):
            port = port_of(config_of(overlay)["healthzBindAddress"])
        agent = container(overlay, "svcmapd")
        for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/healthz")):
            self.assertEqual(agent[probe]["httpGet"], {"path": path, "port": port})
        if overlay not in WITH_SOURCE:
            return
        source = source_of(overlay)
        get = source["livenessProbe"]["httpGet"]
        self.assertEqual(flag_values(source)["--healthz-bind-address"],
                         f"{get['host']}:{get['port']}")

    def test_side_by_side_shares_no_port_with_kube_proxy(self):
        config = config_of("side-by-side")
        for field in ("healthzBindAddress", "metricsBindAddress"):
            self.assertNotIn(port_of(config[field]), (10249, 10256))
        bridge = container("side-by-side", "svcmap-kube")
        self.assertEqual(flag_values(bridge)["--service-proxy-name"], "svcmap")
        self.assertNotIn("--service-proxy-name", flag_values(container("base", "svcmap-kube")))

    @each(OF_KUBEADM)
    def test_kubeadms_config_map_is_taken_and_none_is_made(self, overlay):
        self.assertNotIn("ConfigMap", built(overlay))
        config = next(v for v in pod(overlay)["volumes"] if v["name"] == "config")
        self.assertEqual(config["configMap"], {"name": "kube-proxy"})

    def test_take_over_is_for_nodes_that_were_chosen(self):
        self.assertIn("--remove-kube-proxy", container("take-over", "svcmapd")["args"])
        self.assertIn("nodeAffinity", pod("take-over")["affinity"])
        self.assertNotIn("affinity", pod("kubeadm"))

    @each(("base", "side-by-side"))
    def test_the_kubeconfig_names_a_server_and_files_that_are_mounted(self, overlay):
        config = yaml.safe_load(built(overlay)["ConfigMap"]["data"]["kubeconfig.conf"])
        token = next(m["mountPath"] for m in container(overlay, "svcmap-kube")["volumeMounts"]
                     if m["name"] == "token")
        self.assertEqual(config["users"][0]["user"], {"tokenFile": token + "/token"})
        cluster = config["clusters"][0]["cluster"]
        self.assertEqual(cluster["certificate-authority"], token + "/ca.crt")
        self.assertEqual(config_of(overlay)["clientConnection"]["kubeconfig"],
                         "/var/lib/kube-proxy/kubeconfig.conf")

    @each(ALL)
    def test_images_are_of_this_version_and_from_no_registry_that_is_not_ours(self, overlay):
        version = re.search(r"project\(svcmap VERSION ([0-9.]+)", (TOP / "CMakeLists.txt").read_text())
        images = {c["image"] for c in containers(overlay) if c["name"] != "done"}
        self.assertEqual(images, {f"localhost/svcmap:{version[1]}"})

    @each(ALL)
    def test_requests_and_no_limits(self, overlay):
        for c in containers(overlay):
            self.assertEqual(set(c["resources"]), {"requests"})
            self.assertEqual(set(c["resources"]["requests"]), {"cpu", "memory"})


@functools.cache
def renderer():
    """Builds tests/deploy/helm/render.go with Debian's Go packages, which are not Go modules."""
    folder = pathlib.Path(os.environ.get("SVCMAP_HELM_BUILD", TOP / "build/release/helm"))
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "", "GOPATH": "/usr/share/gocode"}
    built = subprocess.run(["go", "build", "-o", folder / "render", TOP / "tests/deploy/helm/render.go"],
                           capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stderr
    return folder / "render"


class Helm(unittest.TestCase):
    """Tests of the chart in deploy/helm, rendered without Helm."""
    SCHEMA = json.loads((HELM / "svcmap/values.schema.json").read_text())

    def rendered(self, *values, expected=0):
        """Returns the values, and the rendered templates by file name; or the error message."""
        files = []
        for i, value in enumerate(values):
            path = value
            if isinstance(value, dict):
                path = self.folder / f"{i}.yaml"
                path.write_text(yaml.safe_dump(value))
            files.append(str(path))
        ended = subprocess.run([renderer(), HELM / "svcmap", "kube-system", *files],
                               capture_output=True, text=True)
        self.assertEqual(ended.returncode, expected, ended.stderr)
        return json.loads(ended.stdout) if expected == 0 else ended.stderr

    def objects(self, *values):
        templates = self.rendered(*values)["rendered"]
        objects = [o for name, text in templates.items() if name != "NOTES.txt"
                   for o in yaml.safe_load_all(text) if o]
        return {o["kind"]: o for o in objects}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def comparable(self, objects):
        """Parses the configuration files, and sorts lists whose order has no meaning."""
        copy = json.loads(json.dumps(objects))
        for key, text in copy.get("ConfigMap", {}).get("data", {}).items():
            copy["ConfigMap"]["data"][key] = yaml.safe_load(text)
        spec = copy["DaemonSet"]["spec"]["template"]["spec"]
        spec["volumes"].sort(key=lambda v: v["name"])
        for c in spec["containers"] + spec.get("initContainers", []):
            c["volumeMounts"].sort(key=lambda m: m["name"])
            c.get("env", []).sort(key=lambda e: e["name"])
        return copy

    def test_each_overlay_has_a_values_file(self):
        self.assertEqual({f.stem for f in (HELM / "values").glob("*.yaml")}, set(AGENTS))

    @each(AGENTS)
    def test_chart_and_kustomize_render_the_same_objects(self, overlay):
        self.maxDiff = None
        self.assertEqual(self.comparable(self.objects(HELM / f"values/{overlay}.yaml")),
                         self.comparable(built(overlay)))

    @each(AGENTS)
    def test_values_files_match_the_schema(self, overlay):
        jsonschema.Draft7Validator.check_schema(self.SCHEMA)
        jsonschema.validate(self.rendered(HELM / f"values/{overlay}.yaml")["values"], self.SCHEMA)

    def test_schema_rejects_errors(self):
        base = self.rendered(HELM / "values/base.yaml")["values"]
        for wrong in ({"imgae": {}}, {"apiServer": ""}, {"apiServer": "10.0.0.1:6443"},
                      {"takeOver": "yes"}, {"agent": {"extraArgs": "--service-counters"}},
                      {"image": {"repository": "r", "pullPolicy": "Sometimes"}},
                      {"config": {**base["config"], "healthzBindAddress": "0.0.0.0"}}):
            with self.subTest(wrong):
                with self.assertRaises(jsonschema.ValidationError):
                    jsonschema.validate({**base, **wrong}, self.SCHEMA)

    def test_schema_rejects_errors_of_etcd(self):
        values = self.rendered(HELM / "values/etcd.yaml")["values"]
        for wrong in ({"prefix": ""}, {"prefix": "svcmap"}, {"prefix": "/svcmap/"}, {"tlsSecret": ""},
                      {"endpoints": ["http://10.0.0.1:2379"]}, {"endpoints": ["https://10.0.0.1"]},
                      {"statusPrefix": ""}, {"readers": []}):
            with self.subTest(wrong):
                with self.assertRaises(jsonschema.ValidationError):
                    jsonschema.validate({**values, "etcd": {**values["etcd"], **wrong}}, self.SCHEMA)
        for wrong in ({"controller": {"enabled": True}, "apiServer": "https://10.0.0.1:6443"},
                      {"takeOver": True}):
            with self.subTest(wrong):
                with self.assertRaises(jsonschema.ValidationError):
                    jsonschema.validate({**values, **wrong}, self.SCHEMA)

    def test_etcd_without_tls_needs_no_secret(self):
        plain = {"etcd": {"endpoints": ["http://10.0.0.1:2379"], "tlsSecret": "", "statusPrefix": "",
                          "agentTlsSecret": "", "extraArgs": ["--list-delay=50"]}}
        jsonschema.validate(self.rendered(HELM / "values/etcd.yaml", plain)["values"], self.SCHEMA)
        spec = self.objects(HELM / "values/etcd.yaml", plain)["DaemonSet"]["spec"]["template"]["spec"]
        source = next(c for c in spec["containers"] if c["name"] == "svcmap-etcd")
        self.assertEqual(source["args"][3:], ["--etcd-endpoints=http://10.0.0.1:2379",
                                              "--prefix=/svcmap/v1/DOMAIN", "--list-delay=50"])
        self.assertEqual([m["name"] for m in source["volumeMounts"]], ["run"])
        self.assertLessEqual({v["name"] for v in spec["volumes"]}, {"config", "run", "state"})
        agent = next(c for c in spec["containers"] if c["name"] == "svcmapd")
        self.assertFalse([a for a in agent["args"] if a.startswith(("--listen", "--tls", "--allow-read"))])

    def test_a_missing_api_server_is_an_error(self):
        self.assertIn("apiServer is required", self.rendered(expected=1))

    def test_values_reach_the_objects(self):
        objects = self.objects(HELM / "values/base.yaml", {
            "image": {"repository": "registry.example/svcmap", "tag": "1.2.3"},
            "agent": {"extraArgs": ["--service-counters"], "resources": {"requests": {"memory": "1Gi"}}},
            "config": {"clusterCIDR": "10.0.0.0/8", "healthzBindAddress": "0.0.0.0:1234"}})
        agent = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(agent["image"], "registry.example/svcmap:1.2.3")
        self.assertEqual(agent["args"][-1], "--service-counters")
        self.assertEqual(agent["resources"]["requests"]["memory"], "1Gi")
        self.assertEqual(agent["livenessProbe"]["httpGet"]["port"], 1234)
        config = yaml.safe_load(objects["ConfigMap"]["data"]["config.conf"])
        self.assertEqual(config["clusterCIDR"], "10.0.0.0/8")

    def test_writes_of_svcmap_kube_need_a_value(self):
        values = {"controller": {"startupTaint": "svcmap/not-ready", "events": True}}
        rendered = self.rendered(HELM / "values/base.yaml", values)
        jsonschema.validate(rendered["values"], self.SCHEMA)
        objects = self.objects(HELM / "values/base.yaml", values)
        bridge = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"][1]
        self.assertLessEqual({"--startup-taint=svcmap/not-ready", "--events"}, set(bridge["args"]))
        # The rules of the chart are those of the optional manifests.
        optional = [rule for name in ("startup-taint", "events")
                    for o in yaml.safe_load_all((KUBERNETES / f"bridge/{name}.yaml").read_text())
                    for rule in o.get("rules", [])]
        rules = built("base")["ClusterRole"]["rules"]
        self.assertEqual(objects["ClusterRole"]["rules"], rules + optional)

    def test_a_pod_monitor_selects_the_metrics_port_and_the_job_of_the_alerts(self):
        objects = self.objects(HELM / "values/base.yaml", {
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"},
            "config": {"metricsBindAddress": "0.0.0.0:10299"}})
        monitor, daemon_set = objects["PodMonitor"], objects["DaemonSet"]["spec"]["template"]
        self.assertEqual(monitor["metadata"]["labels"], {"k8s-app": "svcmap", "release": "prometheus"})
        endpoint = monitor["spec"]["podMetricsEndpoints"]
        self.assertEqual(endpoint, [{"port": "metrics", "interval": "15s"}])
        self.assertEqual(daemon_set["spec"]["containers"][0]["ports"],
                         [{"name": "metrics", "containerPort": 10299}])
        labels = daemon_set["metadata"]["labels"]
        self.assertEqual(monitor["spec"]["selector"]["matchLabels"], labels)
        self.assertIn(f'job="{labels[monitor["spec"]["jobLabel"]]}"',
                      (TOP / "deploy/prometheus/svcmap.rules.yaml").read_text())

    def test_a_pod_monitor_of_a_loopback_address_is_an_error(self):
        error = self.rendered(HELM / "values/base.yaml", {"podMonitor": {"enabled": True}}, expected=1)
        self.assertIn("podMonitor.enabled: Prometheus cannot reach config.metricsBindAddress", error)

    @each(AGENTS)
    def test_notes_name_the_next_command(self, overlay):
        notes = self.rendered(HELM / f"values/{overlay}.yaml")["rendered"]["NOTES.txt"]
        self.assertRegex(notes, r"(?m)Next command[^:]*:$\n\n  kubectl ")

    def test_versions_are_those_of_the_project(self):
        version = re.search(r"project\(svcmap VERSION ([0-9.]+)", (TOP / "CMakeLists.txt").read_text())[1]
        chart = yaml.safe_load((HELM / "svcmap/Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))


class Repository(unittest.TestCase):
    def test_links_to_the_repository_lead_to_files(self):
        link = re.compile(r"https://(?:github\.com/you/svcmap/blob|raw\.githubusercontent\.com/you/svcmap)"
                          r"/main/([^\s#\"]+)")
        for name in ("SECURITY-INSIGHTS.yml", "deploy/helm/svcmap/Chart.yaml",
                     "deploy/prometheus/svcmap.rules.yaml"):
            paths = link.findall((TOP / name).read_text())
            self.assertNotEqual(paths, [], name)
            for path in paths:
                self.assertTrue((TOP / path).is_file(), f"{name}: {path}")

    def test_workflows_pin_actions_by_commit(self):
        for workflow in (TOP / ".github/workflows").glob("*.yaml"):
            for action in re.findall(r"uses: (.*)", workflow.read_text()):
                self.assertRegex(action, r"^[\w/-]+@[0-9a-f]{40} # v[0-9.]+$", workflow.name)


class AsPodman(unittest.TestCase):
    """Tests of .ci/pod_as_podman.py, which converts pods to podman commands for .ci/image.sh."""

    def options(self, overlay, name):
        return run(TOP / ".ci/pod_as_podman.py", overlay, name, self.folder, "options").splitlines()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_files_of_the_node_are_files(self):
        options = self.options("take-over", "svcmapd")
        self.assertIn("--pid=host", options)
        self.assertIn("--cap-add=NET_RAW", options)
        self.assertIn(f"--volume={self.folder}/xtables-lock:/run/xtables.lock", options)
        self.assertTrue((self.folder / "xtables-lock").is_file())
        self.assertTrue((self.folder / "state").is_dir())

    def test_what_starts_first_is_a_container_too(self):
        options = self.options("kubeadm-sysctls", "sysctls")
        self.assertIn("--privileged", options)
        self.assertIn("--user=0:0", options)
        self.assertNotIn("--pid=host", options)


class Systemd(unittest.TestCase):
    # Each unit lists the hardening options that are not used, with the reason.
    WORST = {"svcmapd.service": 15, "svcmap-kube.service": 11, "svcmap-etcd.service": 11}

    def test_units_are_understood(self):
        with tempfile.TemporaryDirectory() as folder:
            for unit in self.WORST:
                text = (SYSTEMD / unit).read_text().replace("/usr/bin/svcmap", f"{BIN}/svcmap")
                pathlib.Path(folder, unit).write_text(text)
            found = subprocess.run(["systemd-analyze", "verify", "--man=no",
                                    *(f"{folder}/{unit}" for unit in self.WORST)],
                                   capture_output=True, text=True)
            self.assertEqual((found.returncode, found.stderr), (0, ""))

    def test_units_may_do_no_more_than_they_say(self):
        for unit, worst in self.WORST.items():
            with self.subTest(unit):
                found = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager",
                                        f"--threshold={worst}", SYSTEMD / unit],
                                       capture_output=True, text=True)
                self.assertEqual(found.returncode, 0, found.stdout)

    def test_flags_in_the_defaults_are_those_of_the_programs(self):
        known = flags_of("svcmapd") | flags_of("svcmap-kube") | flags_of("svcmap-etcd") | {"--now"}  # systemctl
        for file in (TOP / "deploy/debian/default").iterdir():
            self.assertLessEqual(set(re.findall(r"(?<![a-z])--[a-z-]+", file.read_text())), known, file)

    def test_flags_are_those_of_the_programs(self):
        for unit in self.WORST:
            lines = [l for l in (SYSTEMD / unit).read_text().splitlines() if l.startswith("ExecStart")]
            for line in lines:
                program = re.search(r"/usr/bin/([a-z-]+)", line)[1]
                for flag in re.findall(r"(?<= )--[a-z-]+", line):
                    self.assertIn(flag, flags_of(program))


if __name__ == "__main__":
    unittest.main()
