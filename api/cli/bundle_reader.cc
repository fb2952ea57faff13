#include "api/cli/bundle_reader.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/bundle/contents.h"
#include "api/cli/object_id.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

bool IsSelected(const ObjectId& filter, const ObjectId& id) {
  return id.kind != v1::KIND_UNSPECIFIED &&
         (filter.kind == v1::KIND_UNSPECIFIED || filter.kind == id.kind) &&
         (filter.name_space.empty() || filter.name_space == id.name_space) &&
         (filter.name.empty() || filter.name == id.name);
}

// Parses a line, which is the JSON of a message, of the file `name`.
template <typename Message>
absl::Status ParseLine(absl::string_view line, const char* name, Message& message) {
  return Annotate(FromJson({line.data(), line.size()}, message), name);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file || !(bytes << file.rdbuf())) return ErrnoStatus(errno, "read " + path);
  auto files = ReadArchive(bytes.str());
  if (!files.ok()) return Annotate(files.status(), "read " + path);
  if (!files->contains(kBundleInfoFile)) {
    return absl::InvalidArgumentError(
        absl::StrCat("read ", path, ": not a support bundle: ", kBundleInfoFile, " not found"));
  }
  return std::make_unique<BundleReader>(*std::move(files));
}

absl::StatusOr<const std::string*> BundleReader::File(const std::string& name) const {
  const auto file = files_.find(name);
  if (file != files_.end()) return &file->second;
  const auto info = files_.find(kBundleInfoFile);
  const std::string reason = info == files_.end() ? "" : ReasonFor(info->second, name);
  return absl::NotFoundError(
      absl::StrCat(name, " is missing", reason.empty() ? "" : ": " + reason));
}

absl::StatusOr<v1::GetStatusResponse> BundleReader::GetStatus() {
  const absl::StatusOr<const std::string*> json = File(kStatusFile);
  if (!json.ok()) return json.status();
  v1::GetStatusResponse status;
  if (absl::Status parsed = ParseLine(**json, kStatusFile, status); !parsed.ok()) return parsed;
  return status;
}

absl::StatusOr<v1::ExplainResponse> BundleReader::Explain(const v1::ExplainRequest& request) {
  const bool from_node = request.from() == "node";
  if ((!request.from().empty() && !from_node) || !request.in_interface().empty()) {
    return absl::FailedPreconditionError(
        "a bundle contains one explanation for each kind of source; use --from node, or omit "
        "--from and --in-interface");
  }
  const absl::StatusOr<const std::string*> lines = File(kExplainFile);
  if (!lines.ok()) return lines.status();
  const std::string protocol = request.protocol().empty() ? "TCP" : request.protocol();
  const std::string quoted_address = absl::StrCat("\"", request.address(), "\"");
  v1::ExplainResponse found;
  for (const absl::string_view line : absl::StrSplit(**lines, '\n')) {
    if (!absl::StrContains(line, quoted_address)) continue;  // Parses only lines that can match.
    v1::ExplainResponse response;
    if (absl::Status parsed = ParseLine(line, kExplainFile, response); !parsed.ok()) return parsed;
    if (response.address() != request.address() || response.port() != request.port() ||
        response.protocol() != protocol) {
      continue;
    }
    found = std::move(response);
    break;
  }
  if (found.address().empty()) {
    return absl::NotFoundError(
        absl::StrCat("no explanation of ", AddressAndPort(request.address(), request.port()), "/",
                     protocol, "; a bundle explains the addresses of Services"));
  }
  if (from_node) {
    auto& cases = *found.mutable_explanations();
    for (int i = cases.size(); i-- > 0;) {
      if (cases[i].source_kind() != v1::Explanation::NODE) cases.DeleteSubrange(i, 1);
    }
  }
  return found;
}

absl::Status BundleReader::List(const ObjectId& filter,
                                const std::function<bool(const v1::Object&)>& take) {
  const absl::StatusOr<const std::string*> lines = File(kObjectsFile);
  if (!lines.ok()) return lines.status();
  for (const absl::string_view line : absl::StrSplit(**lines, '\n', absl::SkipEmpty())) {
    v1::Object object;
    if (absl::Status parsed = ParseLine(line, kObjectsFile, object); !parsed.ok()) return parsed;
    if (IsSelected(filter, IdOf(object)) && !take(object)) break;
  }
  return absl::OkStatus();
}

absl::Status BundleReader::Dump(v1::DumpRequest::What what,
                                const std::function<bool(const std::string& text)>& take) {
  const absl::StatusOr<const std::string*> text =
      File(what == v1::DumpRequest::DESIRED   ? kDesiredFile
           : what == v1::DumpRequest::APPLIED ? kAppliedFile
                                              : kPlanFile);
  if (text.ok()) take(**text);
  return text.status();
}

}  // namespace svcmap::api
