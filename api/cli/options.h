// What the command line asks for, checked as far as the command line alone allows.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "api/cli/object_id.h"
#include "api/tls/tls_files.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct ApplyOptions {
  std::vector<std::string> files;  // Paths of files or directories; "-": standard input.
  bool strict = false;             // Send nothing when something cannot be read.
  bool prune = false;              // What is not named is removed.
  bool dry_run = false;            // Only ask what would change.
};

struct DeleteOptions {  // Either files or objects.
  std::vector<std::string> files;
  std::vector<ObjectId> objects;
  bool dry_run = false;  // Only ask what would change.
};

enum class OutputFormat { kTable, kWide, kJson, kYaml, kName };

struct GetOptions {
  ObjectId filter;  // Empty parts: any.
  OutputFormat output = OutputFormat::kTable;
};

struct StatusOptions {
  OutputFormat output = OutputFormat::kTable;  // Text, kJson or kYaml.
};

struct DumpOptions {
  v1::DumpRequest::What what = v1::DumpRequest::DESIRED;
};

struct ExplainOptions {
  v1::ExplainRequest request;
  OutputFormat output = OutputFormat::kTable;  // Text, kJson or kYaml.
};

struct WaitOptions {
  enum class For { kServing, kController, kRevision };
  For what = For::kServing;
  uint64_t revision = 0;  // With kRevision: at least this.
  std::string what_as_given = "serving";
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  // For all of it.
};

struct WatchOptions {
  OutputFormat output = OutputFormat::kTable;  // Text or kJson.
};

struct MigrateCheckOptions {
  OutputFormat output = OutputFormat::kTable;  // Text or kJson.
};

using Command = std::variant<ApplyOptions, DeleteOptions, GetOptions, StatusOptions, DumpOptions,
                             ExplainOptions, WaitOptions, WatchOptions, MigrateCheckOptions>;

struct Options {
  std::string address;                                           // As given.
  std::string target;                                            // For gRPC.
  TlsFiles tls;                                                  // No ca: no TLS.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);  // Of each call.
  Command command;
};

}  // namespace svcmap::api
