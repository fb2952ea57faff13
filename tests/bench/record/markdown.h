// Markdown tables on standard output. "-" means unknown.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/record/statistics.h"

namespace svcmap::bench {

void PrintHeader(const std::vector<std::string>& columns);
void PrintRow(const std::vector<std::string>& cells);

std::string SecondsText(double seconds);  // For example "0.052 ms", "17.3 ms" or "1.20 s".
std::string SecondsText(const Rounds& rounds, double share = 0.5);
// Returns the median and the median absolute deviation, for example "17.3 ms +- 0.2 ms".
std::string SpreadText(const Rounds& rounds);
std::string KibText(const Rounds& rounds);  // Returns the size in MB.
std::string NumberText(const Rounds& rounds);
std::string RatioText(const Rounds& of, const Rounds& reference);  // For example "12.3x".

}  // namespace svcmap::bench
