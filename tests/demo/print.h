// How the demo looks, within 100 columns. All functions write to standard output.
#pragma once

#include <string>
#include <vector>

#include "tests/demo/probe.h"
#include "tests/demo/scene.h"

namespace svcmap::demo {

void PrintTitle(const std::string& title);
void PrintScene(const Scene& scene);

// What a Service is reached at: one line per kind of address.
void PrintService(const std::vector<Target>& targets);

void PrintTableHeader(const Scene& scene);
void PrintRow(const Scene& scene, const Row& row);

// The first lines of a map that nft listed, long ones cut, and how many more there are.
void PrintListing(const std::string& listing, size_t lines);

// Names in columns.
void PrintNames(const std::vector<std::string>& names);

}  // namespace svcmap::demo
