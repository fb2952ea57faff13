#include "tests/support/kernel_check.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/nft.h"

namespace svcmap::testing {
namespace {

constexpr size_t kShown = 12;  // Maximum number of differences that an error lists.

// Splits a list such as "a, b comment \"x, y\", c" into elements. Commas inside quotes do not
// separate elements.
std::vector<std::string> SplitElements(std::string_view text) {
  std::vector<std::string> elements(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      elements.emplace_back();
    } else if (quoted || (c != '\n' && c != '\t')) {
      if (c != ' ' || !elements.back().empty()) elements.back() += c;
    }
  }
  while (elements.back().ends_with(' ')) elements.back().pop_back();
  std::sort(elements.begin(), elements.end());
  return elements;
}

bool Compared(const std::string& set) {
  return set.find(" svcmap ") != std::string::npos && !set.ends_with(" marker") &&
         !set.ends_with(" affinity") && !set.ends_with(" service-connections") &&
         !set.ends_with(" range-connections");
}

// Sorts the tables of a listing by name, because nft lists a table that was created again last.
// Removes the dormant tables that exist while svcmapd compares chains (see proxy/README.md).
std::string WithTablesInOrder(const std::string& listing) {
  const std::string start = "table ";
  std::vector<std::string> tables;
  std::string before;
  for (const auto& piece : absl::StrSplit(listing, '\n')) {
    const std::string line(piece);
    if (line.starts_with(start)) tables.emplace_back();
    absl::StrAppend(tables.empty() ? &before : &tables.back(), line, "\n");
  }
  std::string& last = tables.empty() ? before : tables.back();
  last.pop_back();  // The line break after the last line.
  std::erase_if(tables, [](const std::string& table) {
    return table.substr(0, table.find('\n')).find(" svcmap-reference") != std::string::npos;
  });
  std::sort(tables.begin(), tables.end());
  return before + absl::StrJoin(tables, "");
}

// Appends the elements that exist only in `one` to `differences`.
void AddOnlyIn(const ElementLists& one, const ElementLists& other, const std::string& what,
               std::vector<std::string>& differences) {
  for (const auto& [set, elements] : one) {
    if (!Compared(set)) continue;
    const auto others = other.find(set);
    for (const std::string& element : elements) {
      if (others != other.end() && others->second.contains(element)) continue;
      differences.push_back(absl::StrCat(what, " in ", set, ": ", element));
    }
  }
}

// Appends the first lines that differ to `differences`.
void AddFirstDifference(const std::string& wanted, const std::string& found,
                        std::vector<std::string>& differences) {
  if (wanted == found) return;
  const std::vector<std::string> lines[2] = {absl::StrSplit(wanted, '\n'),
                                             absl::StrSplit(found, '\n')};
  size_t same = 0;
  while (same < lines[0].size() && same < lines[1].size() && lines[0][same] == lines[1][same]) {
    ++same;
  }
  const auto line = [&](int i) { return same < lines[i].size() ? lines[i][same] : "(nothing)"; };
  differences.push_back(
      absl::StrCat("rules differ from line ", same + 1, ":", line(1), "\nis not", line(0)));
}

// Sorts the sets and chains of each table by name. nft lists sets and chains in the order of their
// creation.
std::string WithBlocksInOrder(const std::string& rules) {
  std::string ordered;
  std::vector<std::string> blocks;
  std::string block;
  for (const auto& piece : absl::StrSplit(rules, '\n')) {
    const std::string line(piece);
    if (line.rfind('\t', 0) != 0) {
      std::sort(blocks.begin(), blocks.end());
      for (const std::string& sorted : blocks) ordered += sorted;
      blocks.clear();
      ordered += line + '\n';
      continue;
    }
    block += line + '\n';
    if (line == "\t}") blocks.push_back(std::exchange(block, ""));
  }
  return ordered;
}

}  // namespace

absl::StatusOr<std::string> Nft(const NetNs& netns, const std::string& arguments) {
  const absl::StatusOr<std::string> output = ListNft(netns, arguments);
  if (!output.ok()) return output.status();
  return WithTablesInOrder(*output);
}

std::vector<ElementsAt> FindElements(const std::string& listing) {
  constexpr std::string_view kStart = "elements = {";
  std::vector<ElementsAt> lists;
  for (size_t at = 0; (at = listing.find(kStart, at)) != std::string::npos;) {
    ElementsAt list = {at + kStart.size(), at + kStart.size(), {}};
    for (bool quoted = false; listing[list.end] != '}' || quoted; ++list.end) {
      if (listing[list.end] == '"') quoted = !quoted;
    }
    list.elements =
        SplitElements(std::string_view(listing).substr(list.begin, list.end - list.begin));
    at = list.end;
    lists.push_back(std::move(list));
  }
  return lists;
}

absl::StatusOr<Listing> ReadListing(const NetNs& netns) {
  const absl::StatusOr<std::string> text = Nft(netns, "-s list ruleset");
  if (!text.ok()) return text.status();
  Listing read;
  std::string table;
  std::string set;
  const auto read_rules = [&](const std::string& part) {
    for (const auto& piece : absl::StrSplit(part, '\n')) {
      const std::string line(piece);
      // Matches a line such as "table ip svcmap {" or "\tset cluster-ips {".
      for (const auto& [start, name] :
           {std::pair("table ", &table), std::pair("\tset ", &set), std::pair("\tmap ", &set)}) {
        if (line.rfind(start, 0) != 0) continue;
        const size_t first = std::string_view(start).size();
        *name = line.substr(first, line.rfind(" {") - first);
      }
      if (!line.empty() && line.rfind("\t\tsize ", 0) != 0) read.rules += line + '\n';
    }
  };
  size_t at = 0;
  for (ElementsAt& list : FindElements(*text)) {
    read_rules(text->substr(at, list.begin - at));
    read.elements[absl::StrCat(table, " ", set)] = {list.elements.begin(), list.elements.end()};
    at = list.end;
  }
  read_rules(text->substr(at));
  const std::string empty_list = "\t\telements = {\n}\n";
  for (size_t i = 0; (i = read.rules.find(empty_list, i)) != std::string::npos;) {
    read.rules.erase(i, empty_list.size());
  }
  read.rules = WithBlocksInOrder(read.rules);
  return read;
}

absl::StatusOr<ElementLists> ReadDump(Agent& agent, v1::DumpRequest::What what) {
  const absl::StatusOr<std::string> dump = agent.Dump(what);
  if (!dump.ok()) return dump.status();
  const std::string start = "add element ";
  ElementLists lists;
  for (const auto& piece : absl::StrSplit(*dump, '\n')) {
    const std::string line(piece);
    if (line.rfind(start, 0) != 0) continue;
    const size_t open = line.find(" { ");
    const size_t close = line.rfind(" }");
    if (open == std::string::npos || close == std::string::npos) {
      return absl::InternalError("not understood in a dump: " + line);
    }
    lists[line.substr(start.size(), open - start.size())].insert(
        line.substr(open + 3, close - open - 3));
  }
  return lists;
}

absl::Status CheckKernel(Agent& agent, const NetNs& netns, const std::string& rules) {
  const absl::StatusOr<ElementLists> wanted = ReadDump(agent, v1::DumpRequest::DESIRED);
  if (!wanted.ok()) return wanted.status();
  const absl::StatusOr<Listing> kernel = ReadListing(netns);
  if (!kernel.ok()) return kernel.status();
  std::vector<std::string> differences;
  AddFirstDifference(rules, kernel->rules, differences);
  for (const char* marker : {"ip svcmap marker", "ip6 svcmap marker"}) {
    if (!kernel->elements.contains(marker)) differences.push_back(absl::StrCat("no ", marker));
  }
  AddOnlyIn(*wanted, kernel->elements, "missing", differences);
  AddOnlyIn(kernel->elements, *wanted, "unwanted", differences);
  if (differences.empty()) return absl::OkStatus();
  std::string text = "the kernel is not as wanted";
  for (size_t i = 0; i < differences.size() && i < kShown; ++i) {
    absl::StrAppend(&text, "\n", differences[i]);
  }
  return absl::DataLossError(absl::StrCat(text, "\n", differences.size(), " differences"));
}

}  // namespace svcmap::testing
