// Defines the commands and options of svcmapctl, for parsing, help and shell completion.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "api/cli/options.h"

namespace svcmap::api {

// An error whose message names the argument, its value and the accepted values.
struct UsageError : CLI::ParseError {
  explicit UsageError(const std::string& message)
      : CLI::ParseError("UsageError", message, CLI::ExitCodes::InvalidError) {}
};

// Defines all commands and options. Parsing `app` stores the values in `options`, and throws
// UsageError if a value is not valid.
void Describe(CLI::App& app, Options& options);

}  // namespace svcmap::api
