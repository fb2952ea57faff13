#include "api/config/program_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace svcmap::api {
namespace {

constexpr int kUsageExit = 2;

// Returns the arguments in reverse order, which CLI11 expects. Splits "--option=" into "--option"
// and "", because CLI11 reads "--option=" as an option without a value.
std::vector<std::string> ReversedArguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      argument.pop_back();
      arguments.emplace_back();
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace

std::optional<int> Parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(ReversedArguments(argc, argv));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageExit;
  }
}

int UsageError(const char* program, const absl::Status& error) {
  for (const auto& line : absl::StrSplit(std::string(error.message()), '\n')) {
    std::fprintf(stderr, "%s: %s\n", program, std::string(line).c_str());
  }
  return kUsageExit;
}

std::string NodeName(std::string name) {
  if (name.empty()) {
    char host[HOST_NAME_MAX + 1] = {};
    gethostname(host, HOST_NAME_MAX);
    name = host;
  }
  return absl::AsciiStrToLower(absl::StripAsciiWhitespace(name));
}

int VerbosityOf(int klog_verbosity) {
  return klog_verbosity >= 6 ? 2 : klog_verbosity >= 4 ? 1 : 0;
}

}  // namespace svcmap::api
