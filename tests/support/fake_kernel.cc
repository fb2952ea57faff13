#include "tests/support/fake_kernel.h"

#include <cerrno>
#include <utility>

#include "nft/base/status.h"

namespace svcmap::nft {

ApplyResult FakeKernel::Apply(const Transaction& transaction) {
  if (transaction.empty()) return {};
  const Fault fault = fault_hook_ ? fault_hook_(transaction) : Fault::kNone;
  if (fault == Fault::kReject) {
    return {ApplyOutcome::kRejected, ErrnoStatus(ENOMEM, "injected fault"), std::nullopt};
  }
  const ApplyResult unknown{ApplyOutcome::kUnknown, ErrnoStatus(ETIMEDOUT, "injected fault"),
                            std::nullopt};
  if (fault == Fault::kUnknownNotCommitted) return unknown;

  const std::optional<Failure> failure = Run(transaction);
  if (fault == Fault::kUnknownCommitted) return unknown;
  if (!failure) return {};
  return {ApplyOutcome::kRejected, ErrnoStatus(failure->error, failure->what), failure->element};
}

std::optional<FakeKernel::Failure> FakeKernel::Run(const Transaction& transaction) {
  changed_ = false;
  // Copies a table before drops and creations, so that they can be undone. Element changes are
  // undone one by one.
  std::optional<std::optional<Table>> before[2];
  const auto keep = [&](Family family) {
    auto& kept = before[Index(family)];
    if (!kept) kept = tables_[Index(family)];
  };
  for (const Family family : transaction.drops()) {
    keep(family);
    tables_[Index(family)].reset();
    // The batch creates a missing table first, so a drop always changes something.
    changed_ = true;
  }
  std::optional<Failure> failure;
  for (const Transaction::TableCreation& creation : transaction.creations()) {
    keep(creation.family);
    if (!failure) failure = Create(creation);
    changed_ = true;
  }
  for (const ChainRepair& repair : transaction.repairs()) {
    keep(repair.family);
    if (!failure) failure = Repair(repair);
    changed_ = true;
  }
  if (!failure) failure = RunElements(transaction);
  if (failure) {
    for (const Family family : kFamilies) {
      if (auto& kept = before[Index(family)]) tables_[Index(family)] = *std::move(kept);
    }
  } else if (changed_) {
    ++generation_;  // A batch without changes does not increment the generation id.
  }
  return failure;
}

std::optional<FakeKernel::Failure> FakeKernel::Create(const Transaction::TableCreation& creation) {
  const TableSpec& sets = specs_[Index(creation.family)];
  const TableSpec& spec = Spec(creation.family, creation.spec);
  std::optional<Table>& table = tables_[Index(creation.family)];
  if (table) return Write(spec, *table);
  table = Table{};
  for (const SetSpec& set : sets.sets) table->sets.emplace_back(set);
  return Write(spec, *table);
}

// A set of the specification is created again, so only its elements are lost.
int FakeKernel::DeleteSet(Family family, Table& table, const std::string& name) {
  const std::vector<SetSpec>& sets = specs_[Index(family)].sets;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].name != name) continue;
    table.sets[i] = FakeSet(sets[i]);
    return 0;
  }
  return table.foreign_sets.erase(name) == 0 ? ENOENT : 0;
}

int FakeKernel::DeleteObjects(const std::vector<ForeignObject>& objects, Table& table) {
  for (const ForeignObject& object : objects) {
    if (table.foreign_objects.erase(object.name) == 0) return ENOENT;
  }
  return 0;
}

std::optional<FakeKernel::Failure> FakeKernel::Write(const TableSpec& spec, Table& table) {
  for (const ChainSpec& chain : spec.chains) {
    if (const int error = table.chains.Add(chain); error != 0) {
      return Failure{error, "add chain " + chain.name, std::nullopt};
    }
  }
  for (const RuleSpec& rule : spec.rules) {
    if (const int error = table.chains.AddRule(rule); error != 0) {
      return Failure{error, "add rule to " + rule.chain, std::nullopt};
    }
  }
  return std::nullopt;
}

std::optional<FakeKernel::Failure> FakeKernel::Repair(const ChainRepair& repair) {
  std::optional<Table>& table = tables_[Index(repair.family)];
  if (!table) return Failure{ENOENT, "repair chains", std::nullopt};
  const TableSpec& spec = Spec(repair.family, repair.spec);
  const std::set<std::string> rewritten(repair.rewrite.begin(), repair.rewrite.end());
  const std::set<std::string> removed(repair.remove_chains.begin(), repair.remove_chains.end());
  int error = 0;
  std::string what;
  const auto run = [&](const std::string& name, const std::string& object, auto&& step) {
    if (error != 0) return;
    error = step();
    what = name + " " + object;
  };
  const auto add_chains = [&](bool again) {
    for (const ChainSpec& chain : spec.chains) {
      if (!rewritten.contains(chain.name) || removed.contains(chain.name) != again) continue;
      run("add chain", chain.name, [&] { return table->chains.Add(chain); });
    }
  };
  if (repair.clear_flags) table->flags = 0;
  add_chains(/*again=*/false);
  for (const auto* names : {&repair.rewrite, &repair.remove_chains}) {
    for (const std::string& chain : *names) {
      run("delete the rules of", chain, [&] { return table->chains.DeleteRules(chain); });
    }
  }
  for (const std::string& set : repair.remove_sets) {
    run("delete set", set, [&] { return DeleteSet(repair.family, *table, set); });
  }
  for (const std::string& chain : repair.remove_chains) {
    run("delete chain", chain, [&] { return table->chains.Remove(chain); });
  }
  run("delete", "objects", [&] { return DeleteObjects(repair.remove_objects, *table); });
  add_chains(/*again=*/true);
  for (const RuleSpec& rule : spec.rules) {
    if (!rewritten.contains(rule.chain)) continue;
    run("add rule to", rule.chain, [&] { return table->chains.AddRule(rule); });
  }
  if (error == 0) return std::nullopt;
  return Failure{error, what, std::nullopt};
}

std::optional<FakeKernel::Failure> FakeKernel::RunElements(const Transaction& transaction) {
  std::vector<Undo> done;
  std::optional<Failure> failure;
  size_t index = 0;
  transaction.ForEachElement([&](Verb verb, const ElementView& element) {
    if (failure) return;
    const bool add = verb == Verb::kAdd;
    const SetSpec& spec = specs_[Index(element.set.family)].sets[element.set.set];
    const std::string what = (add ? "add to " : "delete from ") + spec.name;
    std::optional<Table>& table = tables_[Index(element.set.family)];
    // If the table is missing, the kernel's error refers to the table, not to an element.
    if (!table) {
      failure = Failure{ENOENT, what, std::nullopt};
      return;
    }
    FakeSet& set = table->sets[element.set.set];
    FakeSet::Outcome outcome = add ? set.Add(element) : set.Delete(element);
    if (outcome.error != 0) failure = Failure{outcome.error, what, index};
    if (outcome.change) done.push_back({element.set, *std::move(outcome.change)});
    ++index;
  });
  changed_ |= !done.empty();
  if (failure) {
    for (size_t i = done.size(); i-- > 0;) {
      tables_[Index(done[i].set.family)]->sets[done[i].set.set].Undo(done[i].change);
    }
  }
  return failure;
}

absl::StatusOr<bool> FakeKernel::HasTable(Family family) {
  return tables_[Index(family)].has_value();
}

absl::StatusOr<std::vector<Element>> FakeKernel::ReadSet(SetRef set) {
  if (interrupted_reads_ > 0 && interrupted_set_.value_or(set) == set) {
    --interrupted_reads_;
    return absl::UnavailableError("a commit interrupted the dump");
  }
  const std::optional<Table>& table = tables_[Index(set.family)];
  if (!table) {
    return ErrnoStatus(ENOENT, "read set " + specs_[Index(set.family)].sets[set.set].name);
  }
  return table->sets[set.set].All();
}

absl::StatusOr<std::vector<std::optional<Element>>> FakeKernel::ReadElements(
    SetRef set, std::span<const FieldBytes> keys) {
  const std::optional<Table>& table = tables_[Index(set.family)];
  std::vector<std::optional<Element>> found(keys.size());
  for (size_t i = 0; table && i < keys.size(); ++i) {
    const FakeSet& elements = table->sets[set.set];
    if (!elements.IsKey(keys[i].bytes())) {
      return ErrnoStatus(EINVAL, "read from " + specs_[Index(set.family)].sets[set.set].name);
    }
    found[i] = elements.Find(keys[i].bytes());
  }
  return found;
}

absl::StatusOr<std::optional<TableContent>> FakeKernel::ReadTable(Family family) {
  const std::optional<Table>& table = tables_[Index(family)];
  if (!table) return std::optional<TableContent>();
  const TableSpec& spec = specs_[Index(family)];
  TableContent content;
  content.chains = table->chains.Digests();
  content.bases = table->chains.Bases();
  for (size_t i = 0; i < table->sets.size(); ++i) {
    content.sets[spec.sets[i].name] = i;
    if (!reports_counts_) continue;
    const size_t size = table->sets[i].size() / (spec.sets[i].has_bounds() ? 2 : 1);
    content.elements[spec.sets[i].name] = static_cast<uint32_t>(size);
  }
  for (const std::string& name : table->foreign_sets) {
    content.sets[name] = 0;
    if (reports_counts_) content.elements[name] = 0;
  }
  for (const std::string& name : table->foreign_objects) content.objects.push_back({name, 1});
  content.flags = table->flags;
  return std::optional<TableContent>(std::move(content));
}

absl::StatusOr<TableContent> FakeKernel::ReferenceContent(const TableSpec& spec) {
  FakeKernel fresh(specs_);
  Transaction transaction;
  transaction.CreateTable({spec.family, std::make_shared<TableSpec>(spec)});
  if (const ApplyResult made = fresh.Apply(transaction); !made.error.ok()) return made.error;
  return **fresh.ReadTable(spec.family);
}

bool FakeKernel::ForeignDropTable(Family family) {
  if (!tables_[Index(family)]) return false;
  tables_[Index(family)].reset();
  ++generation_;
  return true;
}

template <typename Fn>
bool FakeKernel::ForeignChainChange(Family family, Fn&& change) {
  std::optional<Table>& table = tables_[Index(family)];
  if (!table || change(table->chains) != 0) return false;
  ++generation_;
  return true;
}

bool FakeKernel::ForeignAddChain(Family family, const std::string& name) {
  return ForeignChainChange(family, [&](FakeChains& chains) {
    return chains.Digests().contains(name) ? EEXIST : chains.Add({.name = name});
  });
}

bool FakeKernel::ForeignDeleteChain(Family family, const std::string& chain) {
  return ForeignChainChange(family, [&](FakeChains& chains) { return chains.Remove(chain); });
}

bool FakeKernel::ForeignAddRule(Family family, const std::string& chain) {
  return ForeignChainChange(family, [&](FakeChains& chains) {
    return chains.AddRule({.chain = chain, .text = "a rule of another process"});
  });
}

bool FakeKernel::ForeignDeleteRule(Family family, const std::string& chain) {
  return ForeignChainChange(family, [&](FakeChains& chains) { return chains.DeleteRule(chain); });
}

bool FakeKernel::ForeignAddSet(Family family, const std::string& name) {
  std::optional<Table>& table = tables_[Index(family)];
  if (!table || !table->foreign_sets.insert(name).second) return false;
  ++generation_;
  return true;
}

bool FakeKernel::ForeignAddObject(Family family, const std::string& name) {
  std::optional<Table>& table = tables_[Index(family)];
  if (!table || !table->foreign_objects.insert(name).second) return false;
  ++generation_;
  return true;
}

bool FakeKernel::ForeignSetFlags(Family family, uint32_t flags) {
  std::optional<Table>& table = tables_[Index(family)];
  if (!table) return false;
  table->flags = flags;
  ++generation_;
  return true;
}

bool FakeKernel::ForeignAddElement(const ElementView& element) {
  std::optional<Table>& table = tables_[Index(element.set.family)];
  if (!table || !table->sets[element.set.set].Add(element).change) return false;
  ++generation_;
  return true;
}

bool FakeKernel::ForeignRemoveElement(SetRef set, std::span<const uint8_t> key, bool interval_end) {
  std::optional<Table>& table = tables_[Index(set.family)];
  if (!table) return false;
  const FakeSet::Outcome outcome = table->sets[set.set].Delete(
      {.set = set, .key = key, .data = {}, .comment = {}, .interval_end = interval_end});
  if (outcome.error != 0) return false;
  ++generation_;
  return true;
}

}  // namespace svcmap::nft
