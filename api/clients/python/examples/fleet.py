"""Keeps a fleet equal to a file with a Kubernetes list in JSON: fleet.py FILE ETCD-URL PREFIX"""
import pathlib
import sys
import time

import svcmap

path = pathlib.Path(sys.argv[1])
with svcmap.Store([sys.argv[2]], sys.argv[3], on_error=print) as store:
    while True:
        store.set(svcmap.parse_list(path.read_text()))
        time.sleep(1)
