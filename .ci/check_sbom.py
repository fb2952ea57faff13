#!/usr/bin/python3
"""Checks the SBOM of the image (SPDX 2.3) against the files of the image, and prints the size of each
package. check_sbom.py SBOM ROOT: ROOT is the unpacked image."""

import json
import pathlib
import re
import sys

sbom = json.loads(pathlib.Path(sys.argv[1]).read_text())
root = pathlib.Path(sys.argv[2])

assert sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0"
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["creationInfo"]["created"])
ids = [package["SPDXID"] for package in sbom["packages"]]
assert len(set(ids)) == len(ids), "two packages have the same SPDXID"
assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i) for i in ids)
related = {r["relatedSpdxElement"] for r in sbom["relationships"]}
assert related == set(ids), "relationships and packages differ"

of_debian = {p["name"]: p for p in sbom["packages"] if p["name"] != "svcmap"}
installed = {f.name for f in (root / "var/lib/dpkg/status.d").iterdir()}
assert set(of_debian) == installed, set(of_debian) ^ installed
for name, package in of_debian.items():
    status = (root / "var/lib/dpkg/status.d" / name).read_text()
    assert f"\nVersion: {package['versionInfo']}\n" in status, name
    assert (root / "usr/share/doc" / name / "copyright").exists(), f"{name}: no licence text"
for licence in ("usr/share/doc/svcmap/LICENSE", "usr/share/common-licenses/GPL-3",
                "usr/share/common-licenses/Apache-2.0"):
    assert (root / licence).exists(), f"{licence} is missing"

sizes = {p["name"]: int(p["comment"].split()[0]) for p in sbom["packages"]}
for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
    print(f"{size / 1e6:8.2f} MB  {name}")
print(f"{sum(sizes.values()) / 1e6:8.2f} MB  in {len(sizes)} packages")
