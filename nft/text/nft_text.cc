#include "nft/text/nft_text.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "nft/text/range_text.h"

namespace svcmap::nft {
namespace {

std::string FamilyWord(Family family) { return family == Family::kIpv4 ? "ip" : "ip6"; }

std::string TableName(const TableSpec& table) {
  return FamilyWord(table.family) + " " + table.name;
}

std::string CommentText(std::string_view comment) {
  std::string text;
  for (const char c : comment) {
    const auto byte = static_cast<unsigned char>(c);
    text += c == '"' || byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return text;
}

std::string DataText(const SetSpec& set, std::span<const uint8_t> data) {
  return set.data.empty() || data.empty() ? "" : FieldsToText(set.data, data);
}

// Returns the text of an element: KEY comment "TEXT" : DATA
std::string Complete(const std::string& key, const std::string& comment, const std::string& data) {
  return key + (comment.empty() ? "" : " comment \"" + comment + "\"") +
         (data.empty() ? "" : " : " + data);
}

std::string KeyText(const SetSpec& set, std::span<const uint8_t> key,
                    std::span<const uint8_t> key_end) {
  return key_end.empty() ? FieldsToText(set.key, key) : RangesText(set.key, key, key_end);
}

std::string RepairLines(const TableSpec& table, const ChainRepair& repair) {
  const std::string name = TableName(table);
  std::string text;
  const auto add = [&](const char* what, const std::vector<std::string>& objects) {
    for (const std::string& object : objects) {
      text.append(what).append(" ").append(name).append(" ").append(object).append("\n");
    }
  };
  add("# rewritten: chain", repair.rewrite);
  for (const std::string& set : repair.remove_sets) {
    const auto is_set = [&](const SetSpec& spec) { return spec.name == set; };
    const bool again = std::any_of(table.sets.begin(), table.sets.end(), is_set);
    add(again ? "# replaced: set" : "delete set", {set});
  }
  add("# added: set", repair.add_sets);
  add("delete chain", repair.remove_chains);
  for (const ForeignObject& object : repair.remove_objects) add("# deleted: object", {object.name});
  if (repair.clear_flags) text += "# flags deleted: table " + name + "\n";
  return text;
}

// Converts the elements of a transaction to ElementParts. Delays the output of each range start
// until the end of the range is known.
class ElementPartsWriter {
 public:
  ElementPartsWriter(const TableSpecs& tables, const std::function<void(const ElementParts&)>& fn)
      : tables_(tables), fn_(fn) {}

  void Add(Verb verb, const ElementView& element) {
    const SetSpec& set = SpecOf(element.set);
    if (!set.has_bounds()) {
      Flush();
      Notify(verb, element, KeyText(set, element.key, element.key_end));
    } else if (!element.interval_end) {
      Flush();
      start_ = Start{verb, element};
    } else if (start_ && start_->verb == verb && start_->element.set == element.set) {
      const Start start = *std::exchange(start_, std::nullopt);
      Notify(verb, start.element, RangeText(set.key, start.element.key, element.key));
    } else {
      Flush();
      fn_({.verb = verb,
           .set = element.set,
           .key = FieldsToText(set.key, element.key),
           .end_only = true});
    }
  }

  void Flush() {
    if (!start_) return;
    const Start start = *std::exchange(start_, std::nullopt);
    Notify(start.verb, start.element,
           RangeText(SpecOf(start.element.set).key, start.element.key, {}));
  }

 private:
  struct Start {
    Verb verb;
    ElementView element;
  };

  const SetSpec& SpecOf(SetRef ref) const { return tables_[Index(ref.family)].sets[ref.set]; }

  void Notify(Verb verb, const ElementView& element, std::string key) {
    fn_({.verb = verb,
         .set = element.set,
         .key = std::move(key),
         .comment = CommentText(element.comment),
         .data = DataText(SpecOf(element.set), element.data)});
  }

  const TableSpecs& tables_;
  const std::function<void(const ElementParts&)>& fn_;
  std::optional<Start> start_;  // Start of a pending range. The views point into the transaction.
};

std::string ElementLine(const TableSpecs& tables, const ElementParts& words) {
  const TableSpec& table = tables[Index(words.set.family)];
  const std::string head = std::string(words.verb == Verb::kAdd ? "add" : "delete") + " element " +
                           TableName(table) + " " + table.sets[words.set.set].name;
  if (words.end_only) return "# " + head + ": end of a range before " + words.key + "\n";
  return head + " { " + Complete(words.key, words.comment, words.data) + " }\n";
}

}  // namespace

std::string TransactionText(const TableSpecs& tables, const Transaction& transaction) {
  std::string text;
  for (const Family family : transaction.drops()) {
    text += "delete table " + TableName(tables[Index(family)]) + "\n";
  }
  for (const Transaction::TableCreation& creation : transaction.creations()) {
    text += "add table " + TableName(tables[Index(creation.family)]) + "\n";
  }
  for (const ChainRepair& repair : transaction.repairs()) {
    text += RepairLines(tables[Index(repair.family)], repair);
  }
  ForEachElementParts(tables, transaction,
                      [&](const ElementParts& words) { text += ElementLine(tables, words); });
  return text;
}

void ForEachElementParts(const TableSpecs& tables, const Transaction& transaction,
                         const std::function<void(const ElementParts&)>& fn) {
  ElementPartsWriter worder(tables, fn);
  transaction.ForEachElement(
      [&](Verb verb, const ElementView& element) { worder.Add(verb, element); });
  worder.Flush();
}

std::string ElementText(const SetSpec& set, const ElementView& element) {
  return KeyText(set, element.key, element.key_end) +
         (element.interval_end ? " (end of a range)" : "") + " in " + set.name;
}

std::string ElementText(const TableSpecs& tables, const Transaction& transaction, size_t index) {
  std::string text = "element " + std::to_string(index);
  size_t position = 0;
  transaction.ForEachElement([&](Verb, const ElementView& element) {
    if (position++ != index) return;
    text = ElementText(tables[Index(element.set.family)].sets[element.set.set], element);
  });
  return text;
}

}  // namespace svcmap::nft
