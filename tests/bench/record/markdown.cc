#include "tests/bench/record/markdown.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace svcmap::bench {
namespace {

constexpr char kUnknown[] = "-";

}  // namespace

void PrintHeader(const std::vector<std::string>& columns) {
  PrintRow(columns);
  PrintRow(std::vector<std::string>(columns.size(), "---"));
}

void PrintRow(const std::vector<std::string>& cells) {
  std::printf("| %s |\n", absl::StrJoin(cells, " | ").c_str());
  std::fflush(stdout);
}

std::string SecondsText(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.2f s", seconds);
  if (seconds >= 0.01) return absl::StrFormat("%.1f ms", seconds * 1e3);
  return absl::StrFormat("%.3f ms", seconds * 1e3);
}

std::string SecondsText(const Rounds& rounds, double share) {
  return rounds.empty() ? kUnknown : SecondsText(Percentile(AllRounds(rounds), share));
}

std::string SpreadText(const Rounds& rounds) {
  if (rounds.empty()) return kUnknown;
  return absl::StrCat(SecondsText(rounds), " +- ", SecondsText(MedianDeviation(AllRounds(rounds))));
}

std::string KibText(const Rounds& rounds) {
  return rounds.empty() ? kUnknown : absl::StrFormat("%.1f MB", Median(AllRounds(rounds)) / 1024);
}

std::string NumberText(const Rounds& rounds) {
  return rounds.empty() ? kUnknown : absl::StrFormat("%.0f", Median(AllRounds(rounds)));
}

std::string RatioText(const Rounds& of, const Rounds& reference) {
  const double ratio = Ratio(of, reference);
  if (ratio == 0) return kUnknown;
  return absl::StrFormat(ratio < 10 ? "%.2fx" : "%.0fx", ratio);
}

}  // namespace svcmap::bench
