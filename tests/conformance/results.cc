#include "tests/conformance/results.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/conformance/test_list.h"

namespace svcmap::conformance {

absl::Status Results::Add(const std::string& program, std::string_view content) {
  std::istringstream lines{std::string(content)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string outcome, full_name;
    long assertions = -1;
    fields >> outcome >> assertions;
    std::getline(fields >> std::ws, full_name);
    const size_t dot = full_name.find('.');
    if (assertions < 0 || dot == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("results of ", program, ": ", line));
    }
    std::string reason;
    if (outcome != "passed") {
      reason = absl::StrCat(full_name, " ", outcome);
    } else if (assertions == 0) {
      reason = absl::StrCat(full_name, " passed without an assertion");
    }
    const std::string name = TestName(full_name.substr(0, dot), full_name.substr(dot + 1));
    const auto found = reasons_.try_emplace({program, name}, reason).first;
    if (found->second.empty()) found->second = reason;
  }
  return absl::OkStatus();
}

std::string Results::WhyNotCounted(const std::string& program, const std::string& test) const {
  const auto found = reasons_.find({program, test});
  return found == reasons_.end() ? absl::StrCat(test, " did not run") : found->second;
}

std::string ProgramOf(const std::string& path) {
  const std::string entry = std::filesystem::path(path).filename();
  return entry.substr(0, entry.find('.'));
}

std::string ProgramPathOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().parent_path() / "tests" / ProgramOf(path);
}

absl::Status ReadResults(const std::vector<std::string>& paths, ResultFiles& found) {
  namespace fs = std::filesystem;
  for (const std::string& path : paths) {
    std::error_code error, built_error;
    const auto finished = fs::last_write_time(path, error);
    const auto built = fs::last_write_time(ProgramPathOf(path), built_error);
    if (error || built_error || finished < built) {
      found.missing.push_back(path);
      continue;
    }
    std::ifstream file(path);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    if (absl::Status status = found.results.Add(ProgramOf(path), content); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace svcmap::conformance
