#include "tests/support/program_flags.h"

#include <map>
#include <mutex>

#include "tests/support/process.h"

namespace svcmap::testing {

bool ProgramKnows(const std::string& program, const std::string& flag) {
  static std::mutex mutex;
  static std::map<std::string, std::string> help_texts;
  const std::lock_guard lock(mutex);
  auto found = help_texts.find(program);
  if (found == help_texts.end()) {
    const absl::StatusOr<std::string> help = RunOk({.argv = {program, "--help"}});
    found = help_texts.emplace(program, help.ok() ? *help : "").first;
  }
  return found->second.find(flag) != std::string::npos;
}

}  // namespace svcmap::testing
