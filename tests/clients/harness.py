"""Processes for the tests of api/clients: the clients, their examples, and svcmapd."""
import concurrent.futures
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
PYTHON_CLIENT = TOP / "api/clients/python"
BIN = pathlib.Path(os.environ.get("SVCMAP_BIN", TOP / "build/release/bin"))
WORK = pathlib.Path(os.environ.get("SVCMAP_CLIENTS_BUILD", TOP / "build/clients"))
PATIENCE = 60

sys.path.insert(0, str(PYTHON_CLIENT))
import grpc  # noqa: E402
from svcmap.etcd.v3 import etcd_pb2 as etcd  # noqa: E402
from svcmap.v1 import control_pb2 as control, control_pb2_grpc as services  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's packages are for this interpreter.
MODULE = (TOP / "api/clients/go/go.mod").read_text().split()[1]
_REPOSITORY = MODULE[:-len("/api/clients/go")]


def go(*arguments, cwd=None, modules=False):
    """Runs the go command with Debian's packages, which are no modules. WORK/go is a GOPATH that contains
    this repository. With `modules`, runs the go command with the modules in the directory `vendor`."""
    source = WORK / "go/src" / _REPOSITORY
    source.parent.mkdir(parents=True, exist_ok=True)
    if not source.is_symlink() or os.readlink(source) != str(TOP):
        new = source.with_name(f"{source.name}.{os.getpid()}")
        new.symlink_to(TOP)
        new.rename(source)
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "", "GOPATH": f"{WORK}/go:/usr/share/gocode",
                   "GOCACHE": f"{WORK}/go-cache", "GOENV": "off"}
    if modules:
        environment |= {"GO111MODULE": "on", "GOFLAGS": "-mod=vendor", "GOPROXY": "off"}
    done = subprocess.run(["go", *arguments], env=environment, cwd=cwd or WORK, capture_output=True, text=True)
    assert done.returncode == 0, f"go {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def go_program(package, *flags):
    """Builds a Go program of this repository."""
    path = WORK / package.replace("/", "-")
    go("build", *flags, "-o", str(path), f"{_REPOSITORY}/{package}")
    return str(path)


def go_driver():
    """SVCMAP_CLIENTS_RACE=1 adds Go's race detector, whose first build takes minutes."""
    return [go_program("tests/clients/driver", *(["-race"] if os.environ.get("SVCMAP_CLIENTS_RACE") == "1" else []))]


def python_driver(kind):
    return [PYTHON, str(TOP / "tests/clients/driver.py"), kind]


def python_environment():
    return {**os.environ, "PYTHONPATH": str(PYTHON_CLIENT), "PYTHONDONTWRITEBYTECODE": "1"}


def service(name, address):
    return {"kind": "Service", "metadata": {"namespace": "shop", "name": name},
            "spec": {"clusterIP": address, "ports": [{"name": "http", "port": 80}]}}


def endpoint_slice(name, *addresses):
    return {"kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"namespace": "shop", "name": f"{name}-1",
                         "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": [address]} for address in addresses]}


def kubernetes_list(objects):
    return {"kind": "List", "items": list(objects)}


class Driver:
    """A client under control of the test, see driver/main.go."""

    def __init__(self, command, target, *, state_file=None, certificates=None, name="test",
                 instance="host-1", epoch=0, log=False, **others):
        settings = {**others, "Target": target, "Name": name, "Instance": instance, "Epoch": epoch, "Log": log,
                    "StateFile": str(state_file) if state_file else None,
                    "Certificates": str(certificates) if certificates else None}
        settings = {key: value for key, value in settings.items() if value is not None}
        self._process = subprocess.Popen([*command, json.dumps(settings)], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, env=python_environment())
        self._answers = queue.Queue()
        self.results, self.errors, self.logs = [], [], []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            event = json.loads(line)
            {"result": self.results.append, "error": self.errors.append, "log": self.logs.append,
             "done": self._answers.put}[event["event"]](event["value"])
        self._answers.put("exited")

    def _do(self, **command):
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answers.get(timeout=PATIENCE + 10)

    def change(self, do, *objects):
        """`do` is "set", "apply" or "remove". Returns the error, or None."""
        return self._do(Do=do, List=kubernetes_list(objects))

    def update(self, changed, deleted):
        """Only of stores."""
        assert self._do(Do="update", List=kubernetes_list(changed), Deleted=kubernetes_list(deleted)) is None

    def set(self, *objects):
        assert self.change("set", *objects) is None

    def set_and_accept_removals(self, *objects):
        assert self._do(Do="set", List=kubernetes_list(objects), Accept=True) is None

    def apply(self, *objects):
        assert self.change("apply", *objects) is None

    def remove(self, *objects):
        assert self.change("remove", *objects) is None

    def wait(self, timeout=PATIENCE):
        """Returns the error, or None."""
        return self._do(Do="wait", Timeout=timeout)

    def synced(self):
        error = self.wait()
        assert error is None, f"{error}, errors: {self.errors}"

    def status(self):
        return self._do(Do="status")

    def close(self):
        return self._do(Do="close")

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()


def until(condition, what):
    """Waits until the condition returns a true value."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"timeout: {what() if callable(what) else what}"
        time.sleep(0.005)
    return found


class Svcmapd:
    """svcmapd in a network namespace that survives restarts of svcmapd."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self.target = f"unix://{self._folder}/agent.sock"
        read, write = os.pipe()
        # `cat` lives until its stdin is closed, and holds the namespace.
        self._keeper = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up; echo ready; exec cat"], stdin=read,
                                        stdout=subprocess.PIPE, close_fds=True)
        os.close(read)
        self._write = write
        self._keeper.stdout.readline()
        self._process = None
        self._channel = self._stub = None

    def inside(self, *command):
        """A command that runs in the namespace."""
        return ["nsenter", f"--net=/proc/{self._keeper.pid}/ns/net", *command]

    def start(self, *flags):
        log = open(self._folder / "svcmapd.log", "ab")
        self._process = subprocess.Popen(
            self.inside(BIN / "svcmapd", "--listen", self.target, "--node-name", "n1",
                        "--state-dir", self._folder / "state", "--healthz-bind-address", "",
                        "--metrics-bind-address", "127.0.0.1:10249", *flags), stdout=log, stderr=log)
        log.close()
        self._channel = grpc.insecure_channel(self.target.replace("unix://", "unix:"), [
            ("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100)])
        self._stub = services.ControlStub(self._channel)

    def kill(self):
        if self._process is not None:
            self._channel.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    def objects(self):
        """The stored objects by kind and name, without dependence on their serialization."""
        found = {}
        for part in self._stub.List(control.ListRequest(), wait_for_ready=True, timeout=PATIENCE):
            for obj in part.objects:
                kind = obj.WhichOneof("object")
                value = getattr(obj, kind)
                found[kind, value.metadata.name] = value
        return found

    def status(self):
        return self._stub.GetStatus(control.GetStatusRequest(), wait_for_ready=True, timeout=PATIENCE)

    def received(self):
        """Numbers of batches and of changes that the agent has received since its start."""
        batches = {stage.name: stage.count for stage in self.status().stages}["intake"]
        metrics = subprocess.run(
            self.inside(PYTHON, "-c", "import urllib.request\n"
                        "print(urllib.request.urlopen('http://127.0.0.1:10249/metrics').read().decode())"),
            check=True, capture_output=True, text=True).stdout
        changes = sum(float(line.split()[1]) for line in metrics.splitlines() if line.startswith((
            "kubeproxy_sync_proxy_rules_service_changes_total",
            "kubeproxy_sync_proxy_rules_endpoint_changes_total")))
        return batches, int(changes)

    def log(self):
        return (self._folder / "svcmapd.log").read_text()

    def close(self):
        self.kill()
        os.close(self._write)
        self._keeper.wait()
        self._keeper.stdout.close()


class Etcd:
    """etcd in the network namespace of a Svcmapd. The namespace uses `url`, and this process a Unix socket."""

    def __init__(self, folder, agent):
        self._folder = pathlib.Path(folder)
        self._agent = agent
        self.socket = f"unix://{self._folder}/localhost:1"  # etcd creates the socket in its working directory.
        self._process = self._channel = None

    def start(self, *flags):
        self.url = f"{'https' if flags else 'http'}://127.0.0.1:2379"
        (self._folder / "localhost:1").unlink(missing_ok=True)
        with open(self._folder / "etcd.log", "ab") as log:
            self._process = subprocess.Popen(self._agent.inside(
                "etcd", "--name=n", "--data-dir=etcd-data", f"--listen-client-urls={self.url},unix://localhost:1",
                f"--advertise-client-urls={self.url}", "--listen-peer-urls=http://127.0.0.1:2380",
                "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=n=http://127.0.0.1:2380",
                *flags), cwd=self._folder, stdout=log, stderr=log)
        self._channel = grpc.insecure_channel(self.socket.replace("unix://", "unix:"), [
            ("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100)])

    def kill(self):
        if self._process is not None:
            self._channel.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    def control(self, *arguments):
        """Runs etcdctl."""
        subprocess.run(["etcdctl", *arguments], cwd=self._folder, check=True, capture_output=True,
                       env={**os.environ, "ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": "unix://localhost:1"})

    def restore(self, backup):
        """Replaces the data with the backup. Expects that etcd does not run."""
        shutil.rmtree(self._folder / "etcd-data")
        self.control("snapshot", "restore", backup, "--name=n", "--data-dir=etcd-data",
                     "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=n=http://127.0.0.1:2380")

    def call(self, method, request, stream=False):
        """A request in bytes. Returns the answer in bytes."""
        if stream:
            return next(self._channel.stream_stream(method)(iter((request,)), timeout=PATIENCE, wait_for_ready=True))
        return self._channel.unary_unary(method)(request, timeout=PATIENCE, wait_for_ready=True)

    def txn(self, *requests):
        request = etcd.TxnRequest(success=requests)
        return etcd.TxnResponse.FromString(self.call("/etcdserverpb.KV/Txn", request.SerializeToString()))

    def put(self, key, value):
        self.txn(etcd.RequestOp(request_put=etcd.PutRequest(key=key.encode(), value=value)))

    def pairs(self, prefix):
        """The keys below the prefix, with their values and revisions."""
        request = etcd.RangeRequest(key=prefix.encode(), range_end=prefix.encode() + b"\xff")
        answer = self.txn(etcd.RequestOp(request_range=request))
        return {pair.key.decode()[len(prefix):]: pair for pair in answer.responses[0].response_range.kvs}


class EtcdProxy(grpc.GenericRpcHandler):
    """An endpoint that forwards requests to etcd, loses requests and answers, and changes answers."""

    def __init__(self, etcd_server, folder):
        self._etcd = etcd_server
        self._changed = threading.Condition()  # Its lock guards the fields below.
        self.lose_answers = 0  # Number of transactions with objects whose answers are lost.
        self.lose_requests = 0  # Number of transactions with objects that do not reach etcd.
        self.empty_answers = 0  # Number of transactions whose answers lose their responses.
        self.page_pause = 0  # Seconds before each answer to a read of many keys.
        self.transactions = []  # Transactions that write the head, as TxnRequest.
        self._blocked = False
        self.waiting = 0
        self.url = f"unix://{folder}/proxy.sock"
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), [self], options=[
            ("grpc.max_receive_message_length", -1)])
        self._server.add_insecure_port(self.url.replace("unix://", "unix:"))
        self._server.start()

    def block(self, blocked):
        """Requests wait while the proxy is blocked."""
        with self._changed:
            self._blocked = blocked
            self._changed.notify_all()

    def until(self, condition):
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE)

    def service(self, details):
        method = details.method
        if method.endswith("/LeaseKeepAlive"):
            return grpc.stream_stream_rpc_method_handler(
                lambda requests, context: (self._forward(method, request, context, True) for request in requests))
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._forward(method, request, context, False))

    def _forward(self, method, request, context, stream):
        txn = etcd.TxnRequest.FromString(request) if method.endswith("/Txn") else etcd.TxnRequest()
        lost = empty = False
        with self._changed:
            if txn.success and txn.success[0].request_put.key.endswith(b"/head"):
                self.transactions.append(txn)
            if len(txn.success) > 1 and self.lose_requests:
                self.lose_requests -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "request lost")
            if len(txn.success) > 1 and self.lose_answers:
                self.lose_answers -= 1
                lost = True
            self.waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._blocked)
            self.waiting -= 1
            if method.endswith("/Txn") and self.empty_answers:
                self.empty_answers -= 1
                empty = True
        if txn.success and txn.success[0].request_range.limit:
            time.sleep(self.page_pause)
        answer = self._etcd.call(method, request, stream)
        if empty:
            answer = etcd.TxnResponse.FromString(answer)
            del answer.responses[:]
            answer = answer.SerializeToString()
        if lost:
            context.abort(grpc.StatusCode.UNAVAILABLE, "answer lost")
        return answer

    def stop(self):
        self.block(False)
        self._server.stop(None).wait()
