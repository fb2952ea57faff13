// Names and formats of the files in a support bundle, and its archive, a tar archive compressed
// with gzip, in memory. Messages of the API are stored in protobuf's JSON format, so that svcmapctl
// --bundle and other programs can read them. Pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace svcmap::api {

struct ArchiveFile {
  std::string name;  // Path with at most 99 bytes.
  std::string content;
};

// Returns a .tar.gz file with these files. `time` is their modification time in Unix seconds.
std::string MakeArchive(const std::vector<ArchiveFile>& files, int64_t time);

// Returns the contents of all regular files by name. Accepts archives of MakeArchive that another
// tar program has packed again. Rejects archives that are larger than 4 GB when uncompressed.
absl::StatusOr<std::map<std::string, std::string>> ReadArchive(std::string_view bytes);

inline constexpr char kBundleInfoFile[] = "bundle.json";
inline constexpr char kStatusFile[] = "agent/status.json";
inline constexpr char kObjectsFile[] = "agent/objects.jsonl";  // One Object per line.
inline constexpr char kExplainFile[] = "agent/explain.jsonl";  // One ExplainResponse per line.
inline constexpr char kDesiredFile[] = "agent/desired.nft";
inline constexpr char kAppliedFile[] = "agent/applied.nft";
inline constexpr char kPlanFile[] = "agent/plan.nft";

// Returns the message as one line of JSON.
std::string ToJsonLine(const google::protobuf::Message& message);
absl::Status FromJson(std::string_view json, google::protobuf::Message& message);

// A file that could not be created.
struct MissingPart {
  std::string file;
  std::string reason;
};

struct BundleInfo {
  std::string created;  // "2026-11-22T05:24:45Z"
  std::string version;  // Output of svcmapctl --version.
  bool hashed_names = false;
  std::vector<MissingPart> missing;
};

std::string BundleInfoJson(const BundleInfo& info);
// Returns the reason why `file` is missing, or an empty string if it is unknown.
std::string ReasonFor(std::string_view bundle_info_json, std::string_view file);

}  // namespace svcmap::api
