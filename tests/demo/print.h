// Prints the demo's output in at most 100 columns. All functions write to standard output.
#pragma once

#include <string>
#include <vector>

#include "tests/demo/probe.h"
#include "tests/demo/scene.h"

namespace svcmap::demo {

void PrintTitle(const std::string& title);
void PrintScene(const Scene& scene);

// Prints the addresses of each Service port, one line per kind of address.
void PrintService(const std::vector<Target>& targets);

void PrintTableHeader(const Scene& scene);
void PrintRow(const Scene& scene, const Row& row);

// Prints the first lines of an nft listing, truncates long lines, and counts the remaining lines.
void PrintListing(const std::string& listing, size_t lines);

// Prints names separated by spaces. Wraps long lines.
void PrintNames(const std::vector<std::string>& names);

}  // namespace svcmap::demo
