#include "api/cli/inputs.h"

#include <istream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/cli/object_id.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

constexpr char kStdinName[] = "(stdin)";

absl::StatusOr<Manifests> ReadStdin(std::istream& in) {
  std::string text;
  char block[64 * 1024];
  while (in.read(block, sizeof(block)) || in.gcount() > 0) {
    text.append(block, static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxManifestBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(kStdinName, ": exceeds the limit of ", kMaxManifestBytes, " bytes"));
    }
  }
  if (in.bad()) return absl::UnavailableError(absl::StrCat(kStdinName, ": read error"));
  return ReadManifests(text, kStdinName);
}

// Maximum number of unknown fields that are printed one by one.
constexpr size_t kMaxUnknownPrinted = 100;

// Prints a warning for each unknown field of the objects. Returns the number of unknown fields.
size_t WarnOfUnknownFields(const Inputs& inputs, const Session& session) {
  size_t count = 0;
  for (const ManifestObject& object : inputs.objects) {
    for (const ManifestError& unknown : object.unknown_fields) {
      if (count++ < kMaxUnknownPrinted) session.Warn(unknown.ToString());
    }
  }
  if (count > kMaxUnknownPrinted) {
    session.Warn(absl::StrCat(count - kMaxUnknownPrinted, " more unknown fields"));
  }
  return count;
}

// Keeps only the last version of each object, and prints a warning for each other version.
void DropDuplicates(std::vector<ManifestObject>& objects, const Session& session) {
  std::map<ObjectId, size_t> last;
  for (size_t i = 0; i < objects.size(); ++i) {
    // The agent rejects each object without a name.
    if (const ObjectId id = IdOf(objects[i].object); !id.name.empty()) last[id] = i;
  }
  std::vector<ManifestObject> kept;
  kept.reserve(objects.size());
  for (size_t i = 0; i < objects.size(); ++i) {
    const ObjectId id = IdOf(objects[i].object);
    const auto used = last.find(id);
    if (used == last.end() || used->second == i) {
      kept.push_back(std::move(objects[i]));
    } else {
      session.Warn(absl::StrCat(LocationOf(objects[i]), ": ", id.ToString(),
                                " is ignored, because ", LocationOf(objects[used->second]),
                                " contains the same object"));
    }
  }
  objects = std::move(kept);
}

}  // namespace

std::string LocationOf(const ManifestObject& object) {
  return absl::StrCat(object.source, ": document ", object.document, ", line ", object.line);
}

Inputs ReadInputs(const std::vector<std::string>& files, std::string_view left_out,
                  const Session& session) {
  Inputs inputs;
  const auto error = [&](const std::string& text) {
    session.Error(absl::StrCat(text, "; ", std::string(left_out)));
    inputs.complete = false;
  };
  for (const std::string& file : files) {
    absl::StatusOr<Manifests> manifests =
        file == "-" ? ReadStdin(session.in) : ReadManifestPath(file);
    if (!manifests.ok()) {
      error(std::string(manifests.status().message()));
      continue;
    }
    for (const ManifestError& problem : manifests->errors) {
      if (!problem.misspelled) {
        error(problem.ToString());
        continue;
      }
      session.Warn(problem.ToString());
      inputs.misspelled = true;
    }
    for (const ManifestError& warning : manifests->warnings) session.Warn(warning.ToString());
    std::move(manifests->objects.begin(), manifests->objects.end(),
              std::back_inserter(inputs.objects));
  }
  return inputs;
}

std::optional<Inputs> ReadObjectsToApply(const ApplyOptions& options, const Session& session) {
  Inputs inputs = ReadInputs(options.files, "not sent", session);
  const size_t unknown = WarnOfUnknownFields(inputs, session);
  DropDuplicates(inputs.objects, session);
  if (options.strict || options.prune) {
    // A flaw in a complete state would delete objects or fields.
    const std::string_view flaw = !inputs.complete    ? "a manifest cannot be read"
                                  : inputs.misspelled ? "the kind of an object is unknown"
                                  : unknown > 0       ? "a field is unknown"
                                                      : "";
    if (!flaw.empty()) {
      const size_t valid = inputs.objects.size();
      session.Error(absl::StrCat(
          options.prune ? "--prune" : "--strict", ": nothing was sent",
          valid == 0 ? "" : absl::StrCat(", not even ", CountText(valid, "valid object")),
          ", because ", std::string(flaw)));
      return std::nullopt;
    }
  }
  return inputs;
}

}  // namespace svcmap::api
