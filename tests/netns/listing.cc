#include "tests/netns/listing.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {
namespace {

// The elements in "a, b comment \"x, y\", c": commas inside quotes do not separate.
std::vector<std::string> Elements(const std::string& text) {
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
  std::sort(elements.begin(), elements.end());
  return elements;
}

constexpr std::string_view kElements = "elements = {";

// Where the list of elements that begins at `first` ends.
size_t EndOfElements(const std::string& listing, size_t first) {
  size_t end = first;
  for (bool quoted = false; listing[end] != '}' || quoted; ++end) {
    if (listing[end] == '"') quoted = !quoted;
  }
  return end;
}

std::string Sorted(const std::string& listing) {
  std::string sorted;
  size_t at = 0;
  for (;;) {
    const size_t from = listing.find(kElements, at);
    if (from == std::string::npos) return sorted + listing.substr(at);
    const size_t first = from + kElements.size();
    const size_t end = EndOfElements(listing, first);
    sorted += listing.substr(at, first - at) + "\n" +
              absl::StrJoin(Elements(listing.substr(first, end - first)), ",\n");
    at = end;
  }
}

// What packets write, and what differs with every commit.
std::string WithoutState(std::string listing) {
  for (const std::string map : {"map marker {", "map affinity {"}) {
    size_t at = 0;
    while ((at = listing.find(map, at)) != std::string::npos) {
      listing.erase(at, listing.find("\n\t}", at) - at);
    }
  }
  return listing;
}

// The word behind `keyword` in the last line before `at` that begins with it after `indent`.
std::string NameBefore(const std::string& listing, size_t at,
                       std::initializer_list<std::string> keywords) {
  size_t found = std::string::npos;
  for (const std::string& keyword : keywords) {
    const size_t line = listing.rfind("\n" + keyword, at);
    if (line != std::string::npos && (found == std::string::npos || line > found)) found = line;
  }
  if (found == std::string::npos) return "";
  const size_t name = listing.find(' ', found) + 1;
  return listing.substr(name, listing.find(" {", name) - name);
}

bool Compared(const std::string& set) {
  return !set.ends_with(" marker") && !set.ends_with(" affinity");
}

}  // namespace

absl::StatusOr<std::string> Nft(const NetNs& netns, const std::string& arguments) {
  std::vector<std::string> argv = {"nft"};
  for (const auto& argument : absl::StrSplit(arguments, ' ')) argv.emplace_back(argument);
  return RunOk({.argv = argv, .netns = &netns});
}

absl::StatusOr<std::string> SortedRuleset(const NetNs& netns) {
  absl::StatusOr<std::string> listing = Nft(netns, "-s list ruleset");
  return listing.ok() ? Sorted(*listing) : listing;
}

absl::StatusOr<std::string> SortedRulesetOf(const std::string& script) {
  const absl::StatusOr<NetNs> netns = NetNs::Create();
  if (!netns.ok()) return netns.status();
  if (absl::Status status = RunNft(*netns, script); !status.ok()) return status;
  return SortedRuleset(*netns);
}

void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns) {
  const absl::StatusOr<std::string> skeleton = Nft(netns, "-s -t list ruleset");
  ASSERT_OK(skeleton);
  const absl::StatusOr<std::string> dump = agent.Dump(v1::DumpRequest::APPLIED);
  ASSERT_OK(dump);
  const absl::StatusOr<std::string> dumped = SortedRulesetOf(*skeleton + *dump);
  ASSERT_OK(dumped);
  const absl::StatusOr<std::string> kernel = SortedRuleset(netns);
  ASSERT_OK(kernel);
  EXPECT_TRUE(WithoutState(*dumped) == WithoutState(*kernel)) << "dump:\n"
                                                              << *dumped << "\nkernel:\n"
                                                              << *kernel;
}

absl::StatusOr<Listing> ReadListing(const NetNs& netns) {
  const absl::StatusOr<std::string> text = Nft(netns, "-s list ruleset");
  if (!text.ok()) return text.status();
  const std::string listing = "\n" + *text;
  Listing read;
  size_t at = 0;
  for (;;) {
    const size_t from = listing.find(kElements, at);
    read.rules += listing.substr(at, from == std::string::npos ? from : from - at);
    if (from == std::string::npos) break;
    const size_t first = from + kElements.size();
    const size_t end = EndOfElements(listing, first);
    auto& elements = read.elements[absl::StrCat(NameBefore(listing, from, {"table "}), " ",
                                                NameBefore(listing, from, {"\tset ", "\tmap "}))];
    for (const std::string& element : Elements(listing.substr(first, end - first))) {
      elements.insert(std::string(absl::StripAsciiWhitespace(element)));
    }
    at = end + 1;
  }
  std::vector<std::string> lines = absl::StrSplit(read.rules, '\n');
  std::erase_if(lines, [](const std::string& line) {
    return line.rfind("\t\tsize ", 0) == 0 || absl::StripAsciiWhitespace(line).empty();
  });
  read.rules = absl::StrJoin(lines, "\n");
  return read;
}

absl::StatusOr<ElementLists> ReadDump(Agent& agent, v1::DumpRequest::What what) {
  const absl::StatusOr<std::string> dump = agent.Dump(what);
  if (!dump.ok()) return dump.status();
  const std::string start = "add element ";
  ElementLists lists;
  for (const auto& line : absl::StrSplit(*dump, '\n')) {
    const std::string text(line);
    if (text.rfind(start, 0) != 0) continue;
    const size_t open = text.find(" { ");
    const size_t close = text.rfind(" }");
    if (open == std::string::npos || close == std::string::npos) {
      return absl::InternalError("a line of a dump: " + text);
    }
    lists[text.substr(start.size(), open - start.size())].insert(
        text.substr(open + 3, close - open - 3));
  }
  return lists;
}

std::string Difference(const ElementLists& wanted, const ElementLists& found) {
  constexpr int kShown = 12;
  int differences = 0;
  std::string text;
  const auto only_in = [&](const ElementLists& one, const ElementLists& other, const char* what) {
    for (const auto& [set, elements] : one) {
      if (!Compared(set)) continue;
      const auto others = other.find(set);
      for (const std::string& element : elements) {
        if (others != other.end() && others->second.contains(element)) continue;
        if (++differences <= kShown) {
          absl::StrAppend(&text, what, " in ", set, ": ", element, "\n");
        }
      }
    }
  };
  only_in(wanted, found, "missing");
  only_in(found, wanted, "unwanted");
  if (differences > kShown) absl::StrAppend(&text, "and ", differences - kShown, " more\n");
  return text;
}

absl::Status CheckKernel(Agent& agent, const NetNs& netns, const std::string& rules) {
  const absl::StatusOr<ElementLists> wanted = ReadDump(agent, v1::DumpRequest::DESIRED);
  if (!wanted.ok()) return wanted.status();
  absl::StatusOr<Listing> kernel = ReadListing(netns);
  if (!kernel.ok()) return kernel.status();
  std::erase_if(kernel->elements,
                [](const auto& list) { return list.first.find(" svcmap ") == std::string::npos; });
  const std::string difference = Difference(*wanted, kernel->elements);
  if (!difference.empty())
    return absl::DataLossError("the kernel is not as wanted:\n" + difference);
  if (kernel->rules == rules) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the rules are\n", kernel->rules, "\nnot\n", rules));
}

}  // namespace svcmap::testing
