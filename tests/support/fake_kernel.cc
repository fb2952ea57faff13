#include <algorithm>
#include <cerrno>
#include <functional>
#include <iterator>
#include <utility>
#include <variant>

#include "nft/base/status.h"
#include "tests/support/fake_kernel.h"

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

namespace {

uint64_t Digest(const std::string& text, uint64_t seed = 0) {
  return std::hash<std::string>()(text + std::to_string(seed));
}

std::vector<std::string> TargetsOf(const RuleSpec& rule) {
  std::vector<std::string> targets;
  for (const Expr& expr : rule.exprs) {
    const auto* verdict = std::get_if<Verdict>(&expr);
    if (verdict != nullptr && !verdict->chain.empty()) targets.push_back(verdict->chain);
  }
  for (const AnonymousSet& set : rule.sets) {
    for (const AnonymousSet::Entry& entry : set.entries) {
      if (!entry.goto_chain.empty()) targets.push_back(entry.goto_chain);
    }
  }
  return targets;
}

}  // namespace

int FakeChains::Add(const ChainSpec& chain) {
  uint64_t digest = 0;
  if (chain.base) {
    digest = Digest(chain.base->type + " " + chain.base->hook + " " +
                    std::to_string(chain.base->priority));
  }
  const auto [position, added] = chains_.try_emplace(chain.name, Chain{digest, chain.base, {}});
  return added || position->second.digest == digest ? 0 : EOPNOTSUPP;
}

int FakeChains::AddRule(const RuleSpec& rule) {
  const auto chain = chains_.find(rule.chain);
  if (chain == chains_.end()) return ENOENT;
  std::vector<std::string> targets = TargetsOf(rule);
  for (const std::string& target : targets) {
    if (!chains_.contains(target)) return ENOENT;
  }
  chain->second.rules.push_back({Digest(rule.text), std::move(targets)});
  return 0;
}

int FakeChains::DeleteRules(const std::string& chain) {
  const auto found = chains_.find(chain);
  if (found == chains_.end()) return ENOENT;
  found->second.rules.clear();
  return 0;
}

int FakeChains::DeleteRule(const std::string& chain) {
  const auto found = chains_.find(chain);
  if (found == chains_.end() || found->second.rules.empty()) return ENOENT;
  found->second.rules.erase(found->second.rules.begin());
  return 0;
}

int FakeChains::Remove(const std::string& chain) {
  if (!chains_.contains(chain)) return ENOENT;
  for (const auto& [name, other] : chains_) {
    if (name == chain) continue;
    for (const Rule& rule : other.rules) {
      if (std::find(rule.targets.begin(), rule.targets.end(), chain) != rule.targets.end()) {
        return EBUSY;
      }
    }
  }
  chains_.erase(chain);
  return 0;
}

std::map<std::string, BaseChain> FakeChains::Bases() const {
  std::map<std::string, BaseChain> bases;
  for (const auto& [name, chain] : chains_) {
    if (chain.base) bases[name] = *chain.base;
  }
  return bases;
}

std::map<std::string, uint64_t> FakeChains::Digests() const {
  std::map<std::string, uint64_t> digests;
  for (const auto& [name, chain] : chains_) {
    uint64_t digest = chain.digest;
    for (const Rule& rule : chain.rules) digest = Digest(std::to_string(rule.digest), digest + 1);
    digests[name] = digest;
  }
  return digests;
}

namespace {

std::string ToString(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

FakeSet::FakeSet(const SetSpec& spec)
    : key_size_(FieldsSize(spec.key)),
      data_size_(spec.data.empty() ? 0 : FieldsSize(spec.data)),
      interval_(spec.has_bounds()),
      ranges_(spec.has_ranges()) {
  for (const Field field : spec.key) {
    field_sizes_.push_back(PaddedFieldSize(field));
  }
}

FakeSet::Outcome FakeSet::Add(const ElementView& element) {
  const bool end = element.interval_end;
  if (element.key.size() != key_size_ || (end && !interval_)) return {EINVAL, std::nullopt};
  if (element.data.size() != (end ? 0 : data_size_)) return {EINVAL, std::nullopt};
  if (element.key_end.size() != (ranges_ ? key_size_ : 0)) return {EINVAL, std::nullopt};

  Key key{ToString(element.key), !end};
  const auto found = elements_.find(key);
  if (found != elements_.end()) {
    if (ranges_ && found->second.key_end != ToString(element.key_end)) {
      return {EEXIST, std::nullopt};
    }
    // If only the comment differs, the kernel accepts the element and keeps the old comment.
    return {found->second.data == ToString(element.data) ? 0 : EEXIST, std::nullopt};
  }
  if (interval_ && CheckOverlap(key) != 0) return {CheckOverlap(key), std::nullopt};
  if (ranges_ && CheckRanges(element) != 0) return {CheckRanges(element), std::nullopt};
  elements_.emplace(
      key, Value{ToString(element.data), std::string(element.comment), ToString(element.key_end)});
  return {0, Change{std::move(key), std::nullopt}};
}

// The kernel validates start and end elements one by one, not as ranges. The kernel rejects a start
// element directly after another start element, and an end element directly before or after another
// end element.
int FakeSet::CheckOverlap(const Key& key) const {
  const auto next = elements_.lower_bound(key);
  const bool next_is_end = next != elements_.end() && !next->first.start;
  if (!key.start && next_is_end) return EEXIST;
  if (next == elements_.begin()) return 0;
  return std::prev(next)->first.start == key.start ? EEXIST : 0;
}

// The kernel checks whether the first or the last key of a new range is in an existing range. The
// kernel does not check the keys between the first and the last key.
int FakeSet::CheckRanges(const ElementView& element) const {
  return RangeOf(element.key) != elements_.end() || RangeOf(element.key_end) != elements_.end()
             ? EEXIST
             : 0;
}

// A range contains a key if each field of the range contains the corresponding field of the key.
FakeSet::Elements::const_iterator FakeSet::RangeOf(std::span<const uint8_t> key) const {
  const std::string bytes = ToString(key);
  return std::find_if(elements_.begin(), elements_.end(), [&](const auto& range) {
    bool inside = true;
    size_t offset = 0;
    for (const size_t size : field_sizes_) {
      inside &= range.first.bytes.compare(offset, size, bytes, offset, size) <= 0 &&
                bytes.compare(offset, size, range.second.key_end, offset, size) <= 0;
      offset += size;
    }
    return inside;
  });
}

FakeSet::Outcome FakeSet::Delete(const ElementView& element) {
  if (element.key.size() != key_size_) return {EINVAL, std::nullopt};
  const Elements::const_iterator found =
      ranges_ ? RangeOf(element.key)
              : elements_.find(Key{ToString(element.key), !element.interval_end});
  if (found == elements_.end()) return {ENOENT, std::nullopt};
  Change change{found->first, found->second};
  elements_.erase(found);
  return {0, std::move(change)};
}

void FakeSet::Undo(const Change& change) {
  if (change.before) {
    elements_[change.key] = *change.before;
  } else {
    elements_.erase(change.key);
  }
}

std::optional<Element> FakeSet::Find(std::span<const uint8_t> key) const {
  if (ranges_) {
    const auto range = RangeOf(key);
    return range == elements_.end() ? std::nullopt : std::optional(ToElement(*range));
  }
  const auto next = elements_.upper_bound(Key{ToString(key), true});
  if (next == elements_.begin()) return std::nullopt;
  const auto found = std::prev(next);
  if (!found->first.start || (!interval_ && found->first.bytes != ToString(key))) {
    return std::nullopt;
  }
  return ToElement(*found);
}

std::vector<Element> FakeSet::All() const {
  std::vector<Element> all;
  all.reserve(elements_.size());
  for (const auto& entry : elements_) all.push_back(ToElement(entry));
  return all;
}

Element FakeSet::ToElement(const Elements::value_type& entry) {
  const auto& [key, value] = entry;
  return {.key = {key.bytes.begin(), key.bytes.end()},
          .data = {value.data.begin(), value.data.end()},
          .comment = value.comment,
          .interval_end = !key.start,
          .key_end = {value.key_end.begin(), value.key_end.end()}};
}

}  // namespace svcmap::nft
