#include "nft/text/nft_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "nft/text/field_order.h"
#include "nft/text/range_text.h"

namespace svcmap::nft {
namespace {

std::string FamilyWord(Family family) { return family == Family::kIpv4 ? "ip" : "ip6"; }

std::string TableName(const TableSpec& table) {
  return FamilyWord(table.family) + " " + table.name;
}

// Returns the priority in nft syntax: a number, or a standard name with an offset of at most 10,
// such as "filter + 5".
std::string PriorityText(int priority, std::string_view hook) {
  struct Name {
    int priority;
    std::string_view text;
    std::string_view hook;  // If empty, the name is valid for any hook.
  };
  static constexpr Name kNames[] = {
      {-300, "raw", ""}, {-150, "mangle", ""}, {-100, "dstnat", "prerouting"},
      {0, "filter", ""}, {50, "security", ""}, {100, "srcnat", "postrouting"}};
  for (const Name& name : kNames) {
    const int offset = priority - name.priority;
    if (offset < -10 || offset > 10 || (!name.hook.empty() && name.hook != hook)) continue;
    std::string text(name.text);
    if (offset > 0) text += " + " + std::to_string(offset);
    if (offset < 0) text += " - " + std::to_string(-offset);
    return text;
  }
  return std::to_string(priority);
}

std::string TypesText(std::span<const Field> fields) {
  std::string text;
  for (const Field field : fields) {
    if (!text.empty()) text += " . ";
    text += FieldTypeName(field);
  }
  return text;
}

std::string SetDeclaration(const SetSpec& set) {
  std::string text = set.data.empty() ? "\tset " : "\tmap ";
  text += set.name + " {\n\t\t";
  if (!set.typeof_text.empty()) {
    text += set.typeof_text;
  } else {
    text += "type " + TypesText(set.key);
    if (!set.data.empty()) text += " : " + TypesText(set.data);
  }
  text += "\n";
  if (set.dynamic_size != 0) {
    text += "\t\tsize " + std::to_string(set.dynamic_size) + "\n\t\tflags dynamic,timeout\n";
  }
  if (set.interval) text += "\t\tflags interval\n";
  return text + "\t}\n";
}

std::string ChainDeclaration(const TableSpec& table, const ChainSpec& chain) {
  std::string text = "\tchain " + chain.name + " {\n";
  if (!chain.comment.empty()) text += "\t\tcomment \"" + chain.comment + "\"\n";
  if (chain.base) {
    text += "\t\ttype " + chain.base->type + " hook " + chain.base->hook + " priority " +
            PriorityText(chain.base->priority, chain.base->hook) + "; policy accept;\n";
  }
  for (const RuleSpec& rule : table.rules) {
    if (rule.chain == chain.name) text += "\t\t" + rule.text + "\n";
  }
  return text + "\t}\n";
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

std::string TableLine(const TableSpec& table, const Transaction::TableCreation& creation) {
  return (creation.existing ? "# in place: add table " : "add table ") + TableName(table) + "\n";
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

std::string TableText(const TableSpec& table) {
  std::string text = "table " + TableName(table) + " {\n";
  const char* separator = "";
  for (const SetSpec& set : table.sets) {
    text += separator + SetDeclaration(set);
    separator = "\n";
  }
  for (const ChainSpec& chain : table.chains) {
    text += separator + ChainDeclaration(table, chain);
    separator = "\n";
  }
  return text + "}\n";
}

std::string TransactionText(const TableSpecs& tables, const Transaction& transaction) {
  std::string text;
  for (const Family family : transaction.drops()) {
    text += "delete table " + TableName(tables[Index(family)]) + "\n";
  }
  for (const Transaction::TableCreation& creation : transaction.creations()) {
    text += TableLine(tables[Index(creation.family)], creation);
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

std::string ElementsText(const SetSpec& set, std::vector<Element> elements) {
  // If one range ends where the next range starts, the end element comes first.
  std::sort(elements.begin(), elements.end(), [&](const Element& a, const Element& b) {
    const int order = CompareFields(set.key, a.key, b.key);
    return order != 0 ? order < 0 : a.interval_end && !b.interval_end;
  });
  std::string text;
  for (size_t i = 0; i < elements.size(); ++i) {
    const Element& element = elements[i];
    if (element.interval_end) continue;
    std::string key;
    if (set.has_bounds()) {
      const bool closed = i + 1 < elements.size() && elements[i + 1].interval_end;
      key = RangeText(
          set.key, element.key,
          closed ? std::span<const uint8_t>(elements[i + 1].key) : std::span<const uint8_t>());
    } else {
      key = KeyText(set, element.key, element.key_end);
    }
    text += text.empty() ? "\t\telements = { " : ",\n\t\t\t     ";
    text += Complete(key, CommentText(element.comment), DataText(set, element.data));
  }
  return text.empty() ? text : text + " }\n";
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
