#!/usr/bin/python3
"""Example controller: synchronizes an agent with a file of one svcmap.v1.Object as JSON per line.

    apt-get install python3-grpcio protobuf-compiler-grpc
    deploy/examples/python/controller.py objects.jsonl unix:///run/svcmap/svcmap.sock [EPOCH]

When the file changes, the controller sends the differences. FILE.sent stores the acknowledged objects
and their token, so after a restart of either side only differences are sent, or a snapshot if the agent
requests one. proto/README.md explains each step.
"""
import json, os, pathlib, queue, subprocess, sys, tempfile, time
import grpc
from google.protobuf import json_format

proto = pathlib.Path(__file__).resolve().parents[3] / "proto"
with tempfile.TemporaryDirectory() as generated:
    subprocess.run(["protoc", f"-I{proto}", f"--python_out={generated}", f"--grpc_python_out={generated}",
                    "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin",
                    *map(str, proto.glob("svcmap/v1/*.proto"))], check=True)
    sys.path.append(generated)
    from svcmap.v1 import control_pb2 as control, control_pb2_grpc as services
KINDS = {"service": 1, "endpoint_slice": 2, "node": 3, "service_cidr": 4}
PART = 1000  # Objects in a batch of a snapshot.


def read(lines):
    objects = {}
    for line in filter(str.strip, lines):
        kind = (found := json_format.Parse(line, control.Object())).WhichOneof("object")
        meta = getattr(found, kind).metadata
        objects[kind, meta.namespace, meta.name] = line.strip()
    return objects


def changes(held, wanted):
    for key, line in wanted.items():
        if held.get(key) != line:
            yield json_format.Parse(line, control.Change())  # A Change has the same fields as an Object.
    for kind, namespace, name in held.keys() - wanted.keys():
        yield control.Change(remove=dict(kind=KINDS[kind], namespace=namespace, name=name))


def session(path, target, epoch, saved):
    to_agent, number = queue.SimpleQueue(), 0
    with grpc.insecure_channel(target.replace("unix://", "unix:")) as channel:
        answers = services.ControlStub(channel).Push(iter(to_agent.get, None), wait_for_ready=True)
        to_agent.put(control.PushRequest(open=dict(
            name="example", instance=os.uname().nodename, protocol_version=2, epoch=epoch,
            state_token=bytes.fromhex(saved["token"]))))
        resume = next(answers).opened.resume == control.CONTINUE
        print("resume" if resume else "snapshot", flush=True)
        held = read(saved["lines"]) if resume else {}
        while answers.is_active():
            wanted = read(path.read_text().splitlines())
            parts = list(changes(held, wanted))
            requests = [dict(batch=dict(changes=parts[i:i + PART])) for i in range(0, len(parts), PART)]
            if not resume:  # Sends all objects and the end of the snapshot.
                to_agent.put(control.PushRequest(snapshot_begin={}))
                requests.append(dict(snapshot_end={}))
                resume = True
            for request in requests:
                number += 1
                next(iter(request.values()))["number"] = number
                to_agent.put(control.PushRequest(**request))
                ack = next(answers).ack
                print(number, control.Outcome.Name(ack.outcome), "revision", ack.revision,
                      ack.error, *(result.message for result in ack.results), flush=True)
                saved = dict(token=ack.state_token.hex(), lines=list(wanted.values()))
            if requests:
                pathlib.Path(f"{path}.sent").write_text(json.dumps(saved))
            held = wanted
            time.sleep(0.2)
        next(answers)  # Raises the error of the stream.


def main(path, target, epoch=0):
    sent = pathlib.Path(f"{path}.sent")
    while True:
        try:
            saved = json.loads(sent.read_text()) if sent.exists() else dict(token="", lines=[])
            session(pathlib.Path(path), target, int(epoch), saved)
        except grpc.RpcError as error:
            print(error.code().name, error.details(), flush=True)
            if error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED):
                return 1  # Another controller is the leader.
        time.sleep(1)


sys.exit(main(*sys.argv[1:]))
