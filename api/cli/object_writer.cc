#include "api/cli/object_writer.h"

#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "api/cli/columns.h"
#include "api/cli/object_id.h"
#include "api/cli/table.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {
namespace {

class TableWriter : public ObjectWriter {
 public:
  TableWriter(v1::Kind kind, bool wide, const ReadyCounts& ready, size_t columns, std::ostream& out)
      : kind_(kind),
        wide_(wide),
        ready_(ready),
        table_(ColumnsOf(kind, wide), out, wide ? 0 : columns) {}
  void Write(const v1::Object& object) override {
    // Skips objects of other kinds, because their columns differ.
    if (IdOf(object).kind == kind_) table_.Row(CellsOf(object, wide_, ready_));
  }
  void Finish() override { table_.Finish(); }

 private:
  const v1::Kind kind_;
  const bool wide_;
  const ReadyCounts& ready_;
  Table table_;
};

class NameWriter : public ObjectWriter {
 public:
  explicit NameWriter(std::ostream& out) : out_(out) {}
  void Write(const v1::Object& object) override { out_ << IdOf(object).ToString() << '\n'; }

 private:
  std::ostream& out_;
};

class YamlWriter : public ObjectWriter {
 public:
  explicit YamlWriter(std::ostream& out) : out_(out) {}
  void Write(const v1::Object& object) override {
    out_ << separator_ << ManifestYaml({object});
    separator_ = "---\n";
  }

 private:
  std::ostream& out_;
  const char* separator_ = "";
};

class JsonWriter : public ObjectWriter {
 public:
  explicit JsonWriter(std::ostream& out) : out_(out) {}
  void Write(const v1::Object& object) override { out_ << ManifestJson({object}); }

 private:
  std::ostream& out_;
};

// Prints the same text as ManifestJson for all objects, but one object at a time.
class JsonListWriter : public ObjectWriter {
 public:
  explicit JsonListWriter(std::ostream& out) : out_(out) {
    out_ << "{\n  \"apiVersion\": \"v1\",\n  \"items\": [";
  }

  void Write(const v1::Object& object) override {
    const std::string json = ManifestJson({object});
    std::string_view rest = json;
    out_ << (empty_ ? "\n" : ",\n");
    empty_ = false;
    for (const char* line_break = ""; !rest.empty(); line_break = "\n") {
      const size_t end = rest.find('\n');
      out_ << line_break << "    " << rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  }

  void Finish() override { out_ << (empty_ ? "]" : "\n  ]") << ",\n  \"kind\": \"List\"\n}\n"; }

 private:
  std::ostream& out_;
  bool empty_ = true;
};

}  // namespace

std::unique_ptr<ObjectWriter> MakeTableWriter(v1::Kind kind, bool wide, const ReadyCounts& ready,
                                              size_t columns, std::ostream& out) {
  return std::make_unique<TableWriter>(kind, wide, ready, columns, out);
}

std::unique_ptr<ObjectWriter> MakeObjectWriter(OutputFormat format, bool single,
                                               std::ostream& out) {
  if (format == OutputFormat::kYaml) return std::make_unique<YamlWriter>(out);
  if (format == OutputFormat::kName) return std::make_unique<NameWriter>(out);
  if (single) return std::make_unique<JsonWriter>(out);
  return std::make_unique<JsonListWriter>(out);
}

}  // namespace svcmap::api
