"""Keeps an agent equal to a file with a Kubernetes list in JSON: sync_asyncio.py FILE TARGET"""
import asyncio
import pathlib
import sys

import svcmap.aio


async def main(path, target):
    async with svcmap.aio.Agent(target, name="example", state_file=f"{path}.sent",
                                on_result=lambda result: print(result.message), on_error=print) as agent:
        while True:
            agent.set(svcmap.parse_list(path.read_text()))
            await asyncio.sleep(0.2)

asyncio.run(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
