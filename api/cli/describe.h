// Defines the commands and options of svcmapctl, for parsing, help and shell completion.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/tls/tls_files.h"

namespace svcmap::api {

// Raw command-line values, which CLI11 fills in. MakeOptions in command_line.cc converts these
// values to Options.
struct Words {
  std::string address, timeout = "10s";
  TlsFiles tls;
  std::vector<std::string> apply_files, delete_files, delete_names, topic;
  std::string kind, name, name_space, output, what, migrate, to, from, in_interface,
      wait_for = "serving", wait_timeout = "30s", netns, probe_timeout = "2s", bundle, bundle_file,
      log_file, metrics_address = "127.0.0.1:10249", interval = "2s", sort = "rate", by = "service",
      shell, endpoints, fleet, node, prefix, status_prefix, fleet_timeout, window = "5s", listen;
  std::vector<std::string> etcd_urls;
  TlsFiles etcd_tls;
  std::optional<uint64_t> seq;
  int pid = 0, percent = 100;
  size_t sample = 0, rows = 0;
  double rate = 100;
  bool no_endpoints = false, hash_names = false, no_check = false, once = false;
  bool behind = false, rejecting = false, silent = false;
  bool strict = false, prune = false, allow_empty = false, force = false, dry_run = false,
       requirements = false;
  bool all_namespaces = false, verbose = false, ignore_not_found = false;
};

// Defines all commands and options. Parsing `app` stores the values in `words`.
void Describe(CLI::App& app, Words& words);

}  // namespace svcmap::api
