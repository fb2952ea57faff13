"""Keeps an agent equal to a file with a Kubernetes list in JSON: sync.py FILE TARGET"""
import pathlib
import sys
import time

import svcmap

path = pathlib.Path(sys.argv[1])
with svcmap.Agent(sys.argv[2], name="example", state_file=f"{path}.sent",
                  on_result=lambda result: print(result.message), on_error=print) as agent:
    while True:
        agent.set(svcmap.parse_list(path.read_text()))
        time.sleep(0.2)
