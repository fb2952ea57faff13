#include "api/config/file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/manifests/manifests.h"
#include "nft/base/status.h"

namespace svcmap::api {

absl::StatusOr<ConfigurationFile> ReadConfigurationFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return Annotate(text.status(), "--config");
  ReadConfiguration read = ReadKubeProxyConfiguration(*text);
  if (!read.errors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", absl::StrJoin(read.errors, "\n" + path + ": ")));
  }
  return ConfigurationFile{path, *std::move(text), std::move(read.config),
                           std::move(read.findings)};
}

}  // namespace svcmap::api
