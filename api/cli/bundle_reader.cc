#include "api/cli/bundle_reader.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "api/bundle/contents.h"
#include "api/cli/object_id.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr int kObjectsPerPart = 1000;

bool IsSelected(const v1::ListRequest& request, const v1::Object& object) {
  const ObjectId id = IdOf(object);
  return id.kind != v1::KIND_UNSPECIFIED &&
         (request.kind() == v1::KIND_UNSPECIFIED || request.kind() == id.kind) &&
         (request.namespace_().empty() || request.namespace_() == id.name_space) &&
         (request.name().empty() || request.name() == id.name);
}

// Calls `take` with each line of `text` until `take` returns false or an error.
absl::Status ForEachLine(std::string_view text,
                         const std::function<absl::StatusOr<bool>(std::string_view)>& take) {
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    const absl::StatusOr<bool> more = take(text.substr(0, length));
    if (!more.ok()) return more.status();
    if (!*more) break;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return absl::OkStatus();
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

absl::StatusOr<std::string_view> BundleReader::File(const std::string& name) const {
  const auto file = files_.find(name);
  if (file != files_.end()) return file->second;
  const auto info = files_.find(kBundleInfoFile);
  const std::string reason = info == files_.end() ? "" : ReasonFor(info->second, name);
  return absl::NotFoundError(
      absl::StrCat(name, " is missing", reason.empty() ? "" : ": " + reason));
}

absl::StatusOr<v1::GetStatusResponse> BundleReader::GetStatus() {
  const absl::StatusOr<std::string_view> json = File(kStatusFile);
  if (!json.ok()) return json.status();
  v1::GetStatusResponse status;
  if (absl::Status parsed = FromJson(*json, status); !parsed.ok()) {
    return Annotate(parsed, kStatusFile);
  }
  return status;
}

absl::StatusOr<v1::ExplainResponse> BundleReader::Explain(const v1::ExplainRequest& request) {
  const bool from_node = request.from() == "node";
  if ((!request.from().empty() && !from_node) || !request.in_interface().empty()) {
    return absl::FailedPreconditionError(
        "a bundle contains one explanation for each kind of source; use --from node, or omit "
        "--from and --in-interface");
  }
  const absl::StatusOr<std::string_view> lines = File(kExplainFile);
  if (!lines.ok()) return lines.status();
  const std::string protocol = request.protocol().empty() ? "TCP" : request.protocol();
  v1::ExplainResponse found;
  bool stored = false;
  const absl::Status read = ForEachLine(*lines, [&](std::string_view line) -> absl::StatusOr<bool> {
    // Parses only lines that can match.
    if (line.find(absl::StrCat("\"", request.address(), "\"")) == std::string_view::npos)
      return true;
    v1::ExplainResponse response;
    if (absl::Status parsed = FromJson(line, response); !parsed.ok()) {
      return Annotate(parsed, kExplainFile);
    }
    stored = response.address() == request.address() && response.port() == request.port() &&
             response.protocol() == protocol;
    if (stored) found = std::move(response);
    return !stored;
  });
  if (!read.ok()) return read;
  if (!stored) {
    return absl::NotFoundError(absl::StrCat(
        "no explanation of ", AddressAndPort(request.address(), request.port()), "/", protocol,
        "; a bundle explains the addresses of "
        "Services"));
  }
  if (from_node) {
    auto& cases = *found.mutable_explanations();
    for (int i = cases.size(); i-- > 0;) {
      if (cases[i].source_kind() != v1::Explanation::NODE) cases.DeleteSubrange(i, 1);
    }
  }
  return found;
}

absl::Status BundleReader::List(const v1::ListRequest& request,
                                const std::function<bool(const v1::ListResponse&)>& take) {
  const absl::StatusOr<std::string_view> lines = File(kObjectsFile);
  if (!lines.ok()) return lines.status();
  v1::ListResponse part;
  const absl::Status read = ForEachLine(*lines, [&](std::string_view line) -> absl::StatusOr<bool> {
    v1::Object object;
    if (absl::Status parsed = FromJson(line, object); !parsed.ok()) {
      return Annotate(parsed, kObjectsFile);
    }
    if (IsSelected(request, object)) *part.add_objects() = std::move(object);
    if (part.objects_size() < kObjectsPerPart) return true;
    const bool more = take(part);
    part.Clear();
    return more;
  });
  if (read.ok() && part.objects_size() > 0) take(part);
  return read;
}

absl::Status BundleReader::Dump(const v1::DumpRequest& request,
                                const std::function<bool(const v1::DumpResponse&)>& take) {
  const absl::StatusOr<std::string_view> text =
      File(request.what() == v1::DumpRequest::DESIRED   ? kDesiredFile
           : request.what() == v1::DumpRequest::APPLIED ? kAppliedFile
                                                        : kPlanFile);
  if (!text.ok()) return text.status();
  v1::DumpResponse part;
  part.set_text(std::string(*text));
  take(part);
  return absl::OkStatus();
}

}  // namespace svcmap::api
