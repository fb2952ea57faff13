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

std::string ProgramOf(std::string_view entry) {
  return std::string(entry.substr(0, entry.find('.')));
}

absl::Status ReadResults(const std::string& folder, const std::string& programs,
                         const std::vector<std::string>& entries, ResultsFolder& found) {
  namespace fs = std::filesystem;
  for (const std::string& entry : entries) {
    const std::string program = ProgramOf(entry);
    std::error_code error;
    const auto finished = fs::last_write_time(fs::path(folder) / entry, error);
    std::error_code built_error;
    const auto built = fs::last_write_time(fs::path(programs) / program, built_error);
    if (built_error) {
      return absl::NotFoundError(absl::StrCat(programs, "/", program, ": ", built_error.message()));
    }
    if (error || finished < built) {
      found.missing.push_back(entry);
      continue;
    }
    std::ifstream file(fs::path(folder) / entry);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    if (absl::Status status = found.results.Add(program, content); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace svcmap::conformance
