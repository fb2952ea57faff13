#!/bin/bash
# Completes the root file system of the image after packages_into.sh and the programs of svcmap: removes
# libraries that no program loads, adds the licence files, and writes the SBOM (SPDX 2.3).
# finish.sh DIRECTORY VERSION COMMIT SECONDS_SINCE_1970
set -euo pipefail
root=$1 version=$2 commit=$3 created=$4

# Libraries of all programs and plug-ins, as paths outside of the root.
needed() {
  local loader file
  loader=$(cd "$root" && echo lib*/ld-linux-*.so.*)  # In lib64 on amd64, in lib on arm64.
  while read -r file; do
    chroot "$root" "/$loader" --list "/${file#"$root"/}" 2>/dev/null || true
  done < <(find "$root"/usr/bin "$root"/usr/sbin "$root"/usr/lib/*/xtables -type f) |
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u | while read -r file; do realpath "$root$file"; done
}
needed | sort -u >"$root.needed"
# Name service modules and the loader are not listed by the loader.
find "$root"/usr/lib/*/ -maxdepth 1 -type f -name 'lib*.so*' ! -name 'libnss_*' ! -name 'ld-*' | sort |
  comm -23 - "$root.needed" | xargs -r rm -f
find "$root"/usr/lib/*/ -maxdepth 1 -xtype l -delete
rm -f "$root.needed"

cp -a /usr/share/common-licenses "$root/usr/share/"

# Prints the number of bytes of a package in the image, except documentation.
bytes_of() {
  sed -n '/^\.\/usr\/share\/doc\//d; s/^\.\(\/.*[^/]\)$/\1/p' "$root.files/$1" | while read -r file; do
    if [[ -f $root$file && ! -L $root$file ]]; then stat -c %s "$root$file"; fi
  done | awk '{ sum += $1 } END { print sum + 0 }'
}
field() { sed -n "s/^$2: //p" "$root/var/lib/dpkg/status.d/$1" | sed 's/[\\"]/\\&/g'; }

sbom=$root/usr/share/doc/svcmap/sbom.spdx.json
relations=
{
  cat <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "svcmap-$version",
  "documentNamespace": "https://spdx.org/spdxdocs/svcmap-$version-$commit",
  "creationInfo": {
    "created": "$(date -u -d "@$created" +%Y-%m-%dT%H:%M:%SZ)",
    "creators": ["Tool: svcmap/deploy/image/finish.sh"]
  },
  "packages": [
    {
      "SPDXID": "SPDXRef-svcmap",
      "name": "svcmap",
      "versionInfo": "$version",
      "downloadLocation": "NOASSERTION",
      "filesAnalyzed": false,
      "sourceInfo": "commit $commit",
      "licenseConcluded": "Apache-2.0 AND GPL-3.0-or-later",
      "licenseDeclared": "Apache-2.0",
      "copyrightText": "NOASSERTION",
      "primaryPackagePurpose": "APPLICATION",
      "comment": "$(du --bytes --total "$root"/usr/bin/svcmap* | awk 'END { print $1 }') bytes in the image. The svcmapd binary is subject to GPL-3.0, the other binaries to Apache-2.0."
    }
END
  for package in "$root"/var/lib/dpkg/status.d/*; do
    package=${package##*/}
    bytes=$(bytes_of "$package")
    # Packages whose libraries have all been removed, for example protoc's, are not part of the image.
    if ((bytes == 0)) && grep -q '\.so' "$root.files/$package"; then
      rm -rf "$root/var/lib/dpkg/status.d/$package" "$root/usr/share/doc/$package"
      continue
    fi
    source_package=$(field "$package" Source)
    debian_version=$(field "$package" Version)
    architecture=$(field "$package" Architecture)
    id=SPDXRef-${package//[^A-Za-z0-9.-]/-}
    relations+=", {\"spdxElementId\": \"SPDXRef-svcmap\", \"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": \"$id\"}"$'\n'
    cat <<END
    ,{
      "SPDXID": "$id",
      "name": "$package",
      "versionInfo": "$debian_version",
      "supplier": "Organization: Debian",
      "downloadLocation": "NOASSERTION",
      "filesAnalyzed": false,
      "sourceInfo": "built from source package ${source_package:-$package}",
      "licenseConcluded": "NOASSERTION",
      "licenseDeclared": "NOASSERTION",
      "copyrightText": "NOASSERTION",
      "primaryPackagePurpose": "LIBRARY",
      "comment": "$bytes bytes in the image. Licence: /usr/share/doc/$package/copyright",
      "externalRefs": [{
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": "pkg:deb/debian/${package//+/%2B}@${debian_version//+/%2B}?arch=$architecture&distro=bookworm"
      }]
    }
END
  done
  cat <<END
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-svcmap"}
    $relations
  ]
}
END
} >"$sbom"
