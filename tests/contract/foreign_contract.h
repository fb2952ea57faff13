// Base of contract tests on changes by other processes. On the fake kernel, the Foreign methods
// make the changes. On the real kernel, nft(8) makes the changes.
#pragma once

#include <string>

#include "tests/contract/kernel_contract.h"
#include "tests/contract/rule_handles.h"
#include "tests/support/process.h"

namespace svcmap::nft {

class ForeignContract : public KernelContract {
 protected:
  bool real() const { return std::get<KernelKind>(GetParam()) == KernelKind::kReal; }
  FakeKernel& fake() { return static_cast<FakeKernel&>(*kernel_); }

  // Returns the table in nft syntax, for example "ip svcmap".
  std::string Table() const {
    return std::string(family() == Family::kIpv4 ? "ip " : "ip6 ") + std::string(proxy::kTableName);
  }
  // Runs `script` with nft(8), after replacing %T with the table. Real kernel only.
  void Nft(std::string script) {
    for (size_t at; (at = script.find("%T")) != std::string::npos;) script.replace(at, 2, Table());
    ASSERT_OK(testing::RunNft(*netns_, script));
  }

  void AddRule(const std::string& chain) {
    if (real()) return Nft("add rule %T " + chain + " meta mark 7 return");
    EXPECT_TRUE(fake().ForeignAddRule(family(), chain));
  }
  void DeleteRule(const std::string& chain) {  // Deletes the first rule of the chain.
    if (real()) return Nft("delete rule %T " + chain + " handle " + Handles(chain).front());
    EXPECT_TRUE(fake().ForeignDeleteRule(family(), chain));
  }
  void AddChain(const std::string& chain) {
    if (real()) return Nft("add chain %T " + chain);
    EXPECT_TRUE(fake().ForeignAddChain(family(), chain));
  }
  void DeleteChain(const std::string& chain) {
    if (real()) return Nft("delete chain %T " + chain);
    EXPECT_TRUE(fake().ForeignDeleteChain(family(), chain));
  }
  void AddSet(const std::string& set) {
    if (real()) return Nft("add set %T " + set + " { type inet_service; }");
    EXPECT_TRUE(fake().ForeignAddSet(family(), set));
  }

  std::vector<std::string> Handles(const std::string& chain) {
    return testing::RuleHandles(*netns_, Table(), chain);
  }

  TableContent Content() {
    absl::StatusOr<std::optional<TableContent>> content = kernel_->ReadTable(family());
    EXPECT_OK(content);
    EXPECT_TRUE(content.ok() && *content) << "no table";
    return content.ok() && *content ? **std::move(content) : TableContent();
  }
};

}  // namespace svcmap::nft
