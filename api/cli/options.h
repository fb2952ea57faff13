// Options of each svcmapctl command. All values have been validated without contacting the agent.
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
  std::vector<std::string> files;  // Files or directories. "-" means standard input.
  bool strict = false;             // If a manifest cannot be read, send nothing.
  bool prune = false;              // Delete objects that are not in the manifests.
  bool dry_run = false;            // Show the changes without applying them.
};

struct DeleteOptions {  // Either `files` or `objects` is set.
  std::vector<std::string> files;
  std::vector<ObjectId> objects;
  bool dry_run = false;  // Show the changes without applying them.
};

enum class OutputFormat { kTable, kWide, kJson, kYaml, kName };

struct GetOptions {
  ObjectId filter;  // An empty name or namespace matches all objects.
  OutputFormat output = OutputFormat::kTable;
};

struct StatusOptions {
  OutputFormat output = OutputFormat::kTable;  // kTable (text), kJson or kYaml.
};

struct DumpOptions {
  v1::DumpRequest::What what = v1::DumpRequest::DESIRED;
};

struct ExplainOptions {
  v1::ExplainRequest request;
  OutputFormat output = OutputFormat::kTable;  // kTable (text), kJson or kYaml.
  bool requirements = false;                   // Print requirement numbers ("S-94").
};

struct WaitOptions {
  enum class For { kServing, kController, kRevision };
  For what = For::kServing;
  uint64_t revision = 0;                  // Minimum revision to wait for, used with kRevision.
  std::string what_as_given = "serving";  // Value of --for, as typed by the user.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  // Timeout for the whole command.
};

struct WatchOptions {
  OutputFormat output = OutputFormat::kTable;  // kTable (text) or kJson.
};

struct MigrateCheckOptions {
  OutputFormat output = OutputFormat::kTable;  // kTable (text) or kJson.
};

using Command = std::variant<ApplyOptions, DeleteOptions, GetOptions, StatusOptions, DumpOptions,
                             ExplainOptions, WaitOptions, WatchOptions, MigrateCheckOptions>;

struct Options {
  std::string address;  // Agent address as typed by the user.
  std::string target;   // `address` converted to a gRPC target.
  TlsFiles tls;         // TLS is disabled if `ca` is empty.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);  // Timeout for each call.
  Command command;
};

}  // namespace svcmap::api
