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

// nft prints the standard names up to 10 beside them: "filter + 5".
std::string PriorityText(int priority, std::string_view hook) {
  struct Name {
    int priority;
    std::string_view text;
    std::string_view hook;  // Empty: any.
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

std::string SetDeclaration(const SetSpec& set, uint32_t size) {
  std::string text = set.data.empty() ? "\tset " : "\tmap ";
  text += set.name + " {\n\t\t";
  if (!set.typeof_text.empty()) {
    text += set.typeof_text;
  } else {
    text += "type " + TypesText(set.key);
    if (!set.data.empty()) text += " : " + TypesText(set.data);
  }
  text += "\n";
  if (set.sized && size != 0) text += "\t\tsize " + std::to_string(size) + "\n";
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

std::string Quoted(std::string_view comment) {
  std::string text = "\"";
  for (const char c : comment) {
    const auto byte = static_cast<unsigned char>(c);
    text += c == '"' || byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return text + "\"";
}

// KEY comment "TEXT" : DATA, where the key is printed already.
std::string Complete(const SetSpec& set, std::string key, std::string_view comment,
                     std::span<const uint8_t> data) {
  if (!comment.empty()) key += " comment " + Quoted(comment);
  if (!set.data.empty() && !data.empty()) key += " : " + FieldsToText(set.data, data);
  return key;
}

std::string KeyText(const SetSpec& set, std::span<const uint8_t> key,
                    std::span<const uint8_t> key_end) {
  return key_end.empty() ? FieldsToText(set.key, key) : RangesText(set.key, key, key_end);
}

std::string TableLine(const TableSpec& table, const Transaction::TableCreation& creation) {
  std::string text =
      (creation.in_place ? "# in place: add table " : "add table ") + TableName(table);
  const char* separator = " # size: ";
  for (size_t i = 0; i < table.sets.size() && i < creation.sizes.size(); ++i) {
    if (!table.sets[i].sized) continue;
    text += separator + table.sets[i].name + " " + std::to_string(creation.sizes[i]);
    separator = ", ";
  }
  return text + "\n";
}

std::string RepairLines(const TableSpec& table, const ChainRepair& repair) {
  const std::string name = TableName(table);
  std::string text;
  for (const std::string& chain : repair.rewrite) {
    text += "# written anew: chain " + name + " " + chain + "\n";
  }
  for (const std::string& set : repair.remove_sets) {
    text += "delete set " + name + " " + set + "\n";
  }
  for (const std::string& chain : repair.remove_chains) {
    text += "delete chain " + name + " " + chain + "\n";
  }
  return text;
}

// Prints the elements of a transaction, holding a range start back until its end is known.
class ElementLines {
 public:
  ElementLines(const TableSpecs& tables, std::string& text) : tables_(tables), text_(text) {}

  void Add(Verb verb, const ElementView& element) {
    const SetSpec& set = tables_[Index(element.set.family)].sets[element.set.set];
    if (!set.has_bounds()) {
      Flush();
      Line(verb, element, KeyText(set, element.key, element.key_end));
    } else if (!element.interval_end) {
      Flush();
      start_ = Start{verb, element};
    } else if (start_ && start_->verb == verb && start_->element.set == element.set) {
      const Start start = *std::exchange(start_, std::nullopt);
      Line(verb, start.element, RangeText(set.key, start.element.key, element.key));
    } else {
      Flush();
      text_ += "# " + Head(verb, element.set) + ": end of a range before " +
               FieldsToText(set.key, element.key) + "\n";
    }
  }

  void Flush() {
    if (!start_) return;
    const Start start = *std::exchange(start_, std::nullopt);
    const SetSpec& set = tables_[Index(start.element.set.family)].sets[start.element.set.set];
    Line(start.verb, start.element, RangeText(set.key, start.element.key, {}));
  }

 private:
  struct Start {
    Verb verb;
    ElementView element;
  };

  std::string Head(Verb verb, SetRef ref) const {
    const TableSpec& table = tables_[Index(ref.family)];
    return std::string(verb == Verb::kAdd ? "add" : "delete") + " element " + TableName(table) +
           " " + table.sets[ref.set].name;
  }

  void Line(Verb verb, const ElementView& element, std::string key) {
    const SetSpec& set = tables_[Index(element.set.family)].sets[element.set.set];
    text_ += Head(verb, element.set) + " { " +
             Complete(set, std::move(key), element.comment, element.data) + " }\n";
  }

  const TableSpecs& tables_;
  std::string& text_;
  std::optional<Start> start_;  // Its views point into the transaction.
};

}  // namespace

std::string TableText(const TableSpec& table, std::span<const uint32_t> sizes) {
  std::string text = "table " + TableName(table) + " {\n";
  const char* separator = "";
  for (size_t i = 0; i < table.sets.size(); ++i) {
    text += separator + SetDeclaration(table.sets[i], i < sizes.size() ? sizes[i] : 0);
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
  ElementLines lines(tables, text);
  transaction.ForEachElement(
      [&](Verb verb, const ElementView& element) { lines.Add(verb, element); });
  lines.Flush();
  return text;
}

std::string ElementsText(const SetSpec& set, std::vector<Element> elements) {
  // Where one range ends and the next one starts, the end comes first.
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
    text += Complete(set, std::move(key), element.comment, element.data);
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
