#include "nft/fake/fake_kernel.h"

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
  // What drops and creations touch is kept whole; element changes are undone one by one.
  std::optional<std::optional<Table>> before[2];
  const auto keep = [&](Family family) {
    auto& kept = before[Index(family)];
    if (!kept) kept = tables_[Index(family)];
  };
  for (const Family family : transaction.drops()) {
    keep(family);
    tables_[Index(family)].reset();
    changed_ = true;  // The table is created first, so there is always something to drop.
  }
  std::optional<Failure> failure;
  for (const Transaction::TableCreation& creation : transaction.creations()) {
    keep(creation.family);
    if (!failure) failure = Create(creation);
    changed_ = true;
  }
  if (!failure) failure = RunElements(transaction);
  if (failure) {
    for (const Family family : kFamilies) {
      if (auto& kept = before[Index(family)]) tables_[Index(family)] = *std::move(kept);
    }
  } else if (changed_) {
    ++generation_;  // A batch that changes nothing is no commit.
  }
  return failure;
}

std::optional<FakeKernel::Failure> FakeKernel::Create(const Transaction::TableCreation& creation) {
  const TableSpec& spec = specs_[Index(creation.family)];
  std::optional<Table>& table = tables_[Index(creation.family)];
  const auto size_of = [&](size_t i) { return i < creation.sizes.size() ? creation.sizes[i] : 0; };
  if (creation.in_place) {
    if (!table) return Failure{ENOENT, "delete set " + spec.sets[0].name, std::nullopt};
    for (size_t i = 0; i < table->size(); ++i) {
      if (spec.sets[i].dynamic_size == 0) (*table)[i] = FakeSet(spec.sets[i], size_of(i));
    }
    return std::nullopt;
  }
  if (table) {
    for (size_t i = 0; i < table->size(); ++i) {
      if (spec.sets[i].sized) (*table)[i].Recreate(size_of(i));
    }
    return std::nullopt;
  }
  table.emplace();
  for (size_t i = 0; i < spec.sets.size(); ++i) table->emplace_back(spec.sets[i], size_of(i));
  return std::nullopt;
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
    if (!table) {  // The kernel names the table then, not the element.
      failure = Failure{ENOENT, what, std::nullopt};
      return;
    }
    FakeSet& set = (*table)[element.set.set];
    FakeSet::Outcome outcome = add ? set.Add(element) : set.Delete(element);
    if (outcome.error != 0) failure = Failure{outcome.error, what, index};
    if (outcome.change) done.push_back({element.set, *std::move(outcome.change)});
    ++index;
  });
  changed_ |= !done.empty();
  if (failure) {
    for (size_t i = done.size(); i-- > 0;) {
      (*tables_[Index(done[i].set.family)])[done[i].set.set].Undo(done[i].change);
    }
  }
  return failure;
}

absl::StatusOr<bool> FakeKernel::HasTable(Family family) {
  return tables_[Index(family)].has_value();
}

absl::StatusOr<std::vector<Element>> FakeKernel::ReadSet(SetRef set) {
  const std::optional<Table>& table = tables_[Index(set.family)];
  if (!table) {
    return ErrnoStatus(ENOENT, "read set " + specs_[Index(set.family)].sets[set.set].name);
  }
  return (*table)[set.set].All();
}

absl::StatusOr<std::optional<Element>> FakeKernel::ReadElement(SetRef set,
                                                               std::span<const uint8_t> key) {
  const std::optional<Table>& table = tables_[Index(set.family)];
  if (!table) return std::optional<Element>();
  const FakeSet& elements = (*table)[set.set];
  if (!elements.IsKey(key)) {
    return ErrnoStatus(EINVAL, "read from " + specs_[Index(set.family)].sets[set.set].name);
  }
  return elements.Find(key);
}

bool FakeKernel::ForeignDropTable(Family family) {
  if (!tables_[Index(family)]) return false;
  tables_[Index(family)].reset();
  ++generation_;
  return true;
}

bool FakeKernel::ForeignRemoveElement(SetRef set, std::span<const uint8_t> key, bool interval_end) {
  std::optional<Table>& table = tables_[Index(set.family)];
  if (!table) return false;
  const FakeSet::Outcome outcome = (*table)[set.set].Delete(
      {.set = set, .key = key, .data = {}, .comment = {}, .interval_end = interval_end});
  if (outcome.error != 0) return false;
  ++generation_;
  return true;
}

}  // namespace svcmap::nft
