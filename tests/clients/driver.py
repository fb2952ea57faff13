"""The Python clients as a process that tests control, see driver/main.go. The first argument selects
the blocking or the asyncio client."""
import asyncio
import dataclasses
import inspect
import json
import logging
import sys
import threading

import svcmap
import svcmap.aio

_output = threading.Lock()


def say(event, value):
    with _output:
        sys.stdout.write(json.dumps({"event": event, "value": value}) + "\n")
        sys.stdout.flush()


def text(error):
    if error is None:
        return None
    if isinstance(error, svcmap.StreamError):
        return {"code": error.code.value[0], "details": error.details,
                "reason": error.reason.name}
    return {"code": None, "details": str(error) or type(error).__name__}


async def maybe(value):
    """Awaits the result of the asyncio client."""
    return await value if inspect.isawaitable(value) else value


async def main(kind, settings):
    if settings.get("Log"):
        handler = logging.Handler()
        handler.emit = lambda record: say("log", record.getMessage())
        logging.getLogger("svcmap").addHandler(handler)
    credentials = None
    if folder := settings.get("Certificates"):
        credentials = svcmap.TlsFiles(ca=f"{folder}/ca.pem", certificate=f"{folder}/client.pem",
                                      key=f"{folder}/client.key")
    callbacks = {} if settings.get("Log") else {
        "on_result": lambda result: say("result", result.message), "on_error": lambda error: say("error", text(error))}
    if "Prefix" in settings:
        agent = svcmap.Store(settings["Target"].split(","), settings["Prefix"], name=settings["Name"],
                             lease_seconds=settings["Lease"], credentials=credentials, on_error=callbacks["on_error"])
    else:
        client = {"blocking": svcmap.Agent, "asyncio": svcmap.aio.Agent}[kind]
        agent = client(settings["Target"], name=settings["Name"], instance=settings.get("Instance"),
                       credentials=credentials,
                       epoch=settings.get("Epoch", 0), state_file=settings.get("StateFile"), **callbacks)
    while True:
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return
        command = json.loads(line)
        objects = svcmap.parse_list(json.dumps(command["List"])) if "List" in command else []
        done = None
        try:
            if command["Do"] == "set":
                agent.set(objects, accept_removals=command.get("Accept", False))
            elif command["Do"] == "update":
                agent.update(objects, svcmap.parse_list(command["Deleted"]))
            elif command["Do"] == "apply":
                for obj in objects:
                    agent.apply(obj)
            elif command["Do"] == "remove":
                agent.remove(*objects)
            elif command["Do"] == "wait":
                if kind == "asyncio":
                    await asyncio.wait_for(agent.wait(), command["Timeout"])
                else:
                    agent.wait(command["Timeout"])
            elif command["Do"] == "status":
                done = {key: value for key, value in dataclasses.asdict(agent.status).items()
                        if key not in ("agent_version", "revision")}
            elif command["Do"] == "close":
                await maybe(agent.close())
                done = text(getattr(agent, "error", None))
        except (svcmap.Stopped, svcmap.Closed, RuntimeError, TimeoutError, asyncio.TimeoutError) as error:
            done = text(error)
        say("done", done)


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
