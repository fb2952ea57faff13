#include "api/cli/inputs.h"

#include <istream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

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

}  // namespace

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

}  // namespace svcmap::api
