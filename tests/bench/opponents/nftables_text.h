// Builds nft commands and the elements that these commands add and delete.
#pragma once

#include <compare>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nft/types/family.h"

namespace svcmap::bench {

// Statement that marks packets for masquerading.
inline constexpr char kNftSetMark[] = "mark set mark or 0x00004000";

struct NftWords {  // nft keywords that differ between IPv4 and IPv6.
  const char* family;
  const char* address_type;
};

inline NftWords NftWordsOf(Family family) {
  return family == Family::kIpv4 ? NftWords{"ip", "ipv4_addr"} : NftWords{"ip6", "ipv6_addr"};
}

// An element of a named set or map. Elements are compared by all members. A set or map cannot
// contain two elements with equal place().
struct NftElement {
  std::string container, key;
  std::string verdict = {};  // Verdict of a map element. Empty for an element of a set.
  std::string comment = {};

  std::pair<std::string, std::string> place() const { return {container, key}; }
  friend auto operator<=>(const NftElement&, const NftElement&) = default;
};

// The commands of one transaction.
class NftText {
 public:
  explicit NftText(Family family) : words_(NftWordsOf(family)) {}

  void Add(const std::string& what, const std::string& name, const std::string& rest = "") {
    Append("add", what, name, rest);
  }
  void Flush(const std::string& what, const std::string& name) { Append("flush", what, name, ""); }
  void Delete(const std::string& what, const std::string& name, const std::string& rest = "") {
    Append("delete", what, name, rest);
  }

  void Refill(const std::string& chain) {
    Add("chain", chain);
    Flush("chain", chain);
  }
  // Appends a rule to the chain. `comment` may be empty.
  void Rule(const std::string& chain, const std::string& rule, const std::string& comment = "") {
    Add("rule", chain, comment.empty() ? rule : absl::StrCat(rule, " comment \"", comment, "\""));
  }
  void Add(const NftElement& element) {
    Add("element", element.container,
        absl::StrCat(
            "{ ", element.key,
            element.comment.empty() ? "" : absl::StrCat(" comment \"", element.comment, "\""),
            element.verdict.empty() ? "" : " : ", element.verdict, " }"));
  }
  void Delete(const NftElement& element) {
    Delete("element", element.container, absl::StrCat("{ ", element.key, " }"));
  }

  std::string Take() { return std::move(text_); }

 private:
  void Append(const char* verb, const std::string& what, const std::string& name,
              const std::string& rest) {
    absl::StrAppend(&text_, verb, " ", what, " ", words_.family, " kube-proxy ", name,
                    rest.empty() ? "" : " ", rest, "\n");
  }

  NftWords words_;
  std::string text_;
};

}  // namespace svcmap::bench
