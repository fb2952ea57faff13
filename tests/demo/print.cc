#include "tests/demo/print.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace svcmap::demo {
namespace {

constexpr size_t kColumns = 98;

std::string UpperName(testing::Protocol protocol) {
  std::string name = testing::ProtocolName(protocol);
  for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
  return name;
}

// Formats the number of answers of each backend, and the source addresses that the backends saw,
// for example "12  9 11  pod".
std::string SeenText(const Scene& scene, const Row& row, bool v6) {
  const Seen& seen = row.seen[v6];
  if (row.target.addresses[v6].empty()) return "-";
  if (!seen.strange.empty()) return seen.strange.substr(0, 22);
  std::string text;
  int known = 0;
  if (!seen.answers.empty()) {
    for (const testing::Host* backend : scene.backends()) {
      const auto found = seen.answers.find(backend->name());
      const int count = found == seen.answers.end() ? 0 : found->second;
      char cell[8];
      std::snprintf(cell, sizeof(cell), count == 0 ? "  -" : "%3d", count);
      text += cell;
      known += count;
    }
    int all = 0;
    for (const auto& [server, count] : seen.answers) all += count;
    if (all != known) absl::StrAppend(&text, " other ", all - known);
    absl::StrAppend(&text, "  ", absl::StrJoin(seen.sources, ", "));
  }
  if (seen.rejected > 0) absl::StrAppend(&text, seen.rejected, " rejected");
  if (seen.unanswered > 0) absl::StrAppend(&text, " ", seen.unanswered, " unanswered");
  return text;
}

}  // namespace

void PrintTitle(const std::string& title) { std::printf("\n== %s\n", title.c_str()); }

void PrintScene(const Scene& scene) {
  const auto line = [](const testing::Host& host, const char* what) {
    std::printf("  %-10s %-14s %-20s %s\n", host.name().c_str(), host.v4().c_str(),
                host.v6().c_str(), what);
  };
  line(scene.node(), "node with svcmapd");
  for (const testing::Host* backend : scene.backends()) {
    line(*backend,
         backend == scene.backends().back() ? "backend on another node" : "backend on the node");
  }
  line(scene.pod(), "client pod on the node");
  line(scene.client(), "client outside the cluster");
}

void PrintService(const std::vector<Target>& targets) {
  for (const Target& target : targets) {
    std::printf("  %-15s %-13s %-15s %-17s %5d/%-5s %zu endpoints\n", target.service.c_str(),
                KindName(target.kind), target.addresses[0].c_str(), target.addresses[1].c_str(),
                target.port, UpperName(target.protocol).c_str(), target.names.size());
  }
}

void PrintTableHeader(const Scene& scene) {
  std::string backends;
  for (const testing::Host* backend : scene.backends()) {
    backends += std::string(" b") + backend->name().back();
  }
  std::printf("\n  %-10s%-24s%-20s%-18s%s\n", "", "", "", " IPv4 result", " IPv6 result");
  std::printf("  %-10s%-24s%-20s%-18s%s\n", "from", "to", "expected",
              (backends + "  source").c_str(), (backends + "  source").c_str());
}

void PrintRow(const Scene& scene, const Row& row) {
  const char* const mark = row.ok ? "ok" : "DIFFERENT";
  const std::string to = absl::StrCat(KindName(row.target.kind), " ", row.target.port, "/",
                                      UpperName(row.target.protocol));
  const std::string seen[] = {SeenText(scene, row, false), SeenText(scene, row, true)};
  if (seen[0].size() <= 17 && seen[1].size() <= 17) {
    std::printf("  %-10s%-24s%-20s%-17s %-17s %s\n", row.from.c_str(), to.c_str(),
                row.expected.c_str(), seen[0].c_str(), seen[1].c_str(), mark);
    return;
  }
  std::printf("  %-10s%-24s%-20s%-35s %s\n", row.from.c_str(), to.c_str(),
              (row.expected + " (IPv4)").c_str(), seen[0].c_str(), mark);
  std::printf("  %-10s%-24s%-20s%-35s %s\n", "", "", (row.expected + " (IPv6)").c_str(),
              seen[1].c_str(), mark);
}

void PrintListing(const std::string& listing, size_t lines) {
  const std::vector<std::string> all = absl::StrSplit(listing, '\n', absl::SkipEmpty());
  for (size_t i = 0; i < all.size() && i < lines; ++i) {
    std::string line;
    for (const char c : all[i]) line += c == '\t' ? std::string("  ") : std::string(1, c);
    if (line.size() > kColumns - 2) line = line.substr(0, kColumns - 5) + "...";
    std::printf("  %s\n", line.c_str());
  }
  if (all.size() > lines) std::printf("  ... and %zu more lines\n", all.size() - lines);
}

void PrintNames(const std::vector<std::string>& names) {
  std::string line = " ";
  for (const std::string& name : names) {
    if (line.size() + 1 + name.size() > kColumns) {
      std::printf("%s\n", line.c_str());
      line = " ";
    }
    absl::StrAppend(&line, " ", name);
  }
  std::printf("%s\n", line.c_str());
}

}  // namespace svcmap::demo
