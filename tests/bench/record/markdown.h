// Prints Markdown tables to standard output. A cell "-" means that a value is unknown.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/record/statistics.h"

namespace svcmap::bench {

void PrintHeader(const std::vector<std::string>& columns);
void PrintRow(const std::vector<std::string>& cells);

// Returns a duration as text, for example "0.052 ms", "17.3 ms" or "1.20 s".
std::string SecondsText(double seconds);
std::string SecondsText(const Rounds& rounds, double share = 0.5);
// Returns the median and the median absolute deviation as text, for example "17.3 ms +- 0.2 ms".
std::string SpreadText(const Rounds& rounds);
std::string KibText(const Rounds& rounds);  // Returns the median size in MB as text.
std::string NumberText(const Rounds& rounds);
// Returns a ratio as text, for example "12.3x".
std::string RatioText(const Rounds& of, const Rounds& reference);

}  // namespace svcmap::bench
