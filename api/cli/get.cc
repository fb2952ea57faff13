// Implements `svcmapctl get`.
#include <functional>
#include <optional>
#include <ostream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "api/cli/columns.h"
#include "api/cli/commands.h"
#include "api/cli/table.h"
#include "api/convert/quote.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {
namespace {

// Example: no services found in namespace "shop"
std::string NothingListed(const ObjectId& filter) {
  return absl::StrCat("no ", std::string(WordsOf(filter.kind).plural), " found",
                      filter.name_space.empty() ? "" : " in namespace " + Quote(filter.name_space));
}

v1::ListRequest RequestOf(const ObjectId& filter) {
  v1::ListRequest request;
  request.set_kind(filter.kind);
  request.set_namespace_(filter.name_space);
  request.set_name(filter.name);
  return request;
}

// Counts the endpoints for the READY column of Services.
absl::StatusOr<ReadyCounts> CountEndpoints(const ObjectId& services, Reader& reader) {
  ReadyCounts counts;
  const absl::Status status =
      reader.List(RequestOf({v1::KIND_ENDPOINT_SLICE, services.name_space, ""}),
                  [&](const v1::ListResponse& part) {
                    for (const v1::Object& object : part.objects()) {
                      if (object.has_endpoint_slice()) counts.Add(object.endpoint_slice());
                    }
                    return true;
                  });
  if (!status.ok()) return status;
  return counts;
}

// Calls `write` for each object that matches `filter`, and returns their number.
absl::StatusOr<size_t> WriteObjects(const ObjectId& filter, const Session& session,
                                    const std::function<void(const v1::Object&)>& write) {
  size_t count = 0;
  const absl::Status status =
      session.reader.List(RequestOf(filter), [&](const v1::ListResponse& part) {
        for (const v1::Object& object : part.objects()) write(object);
        count += static_cast<size_t>(part.objects_size());
        return session.out.good();  // Stops when standard output is closed.
      });
  if (!status.ok()) return status;
  return count;
}

// Reports that no object was found. Returns the exit code.
ExitCode ReportNothing(const ObjectId& filter, Session& session) {
  if (filter.name.empty()) {
    session.Note(NothingListed(filter));
    return ExitCode::kOk;
  }
  session.Error(NotFoundText(filter, session.reader));
  return ExitCode::kIncomplete;
}

ExitCode PrintTables(const GetOptions& options, Session& session) {
  const bool wide = options.output == OutputFormat::kWide;
  ExitCode code = ExitCode::kOk;
  bool printed = false;
  for (const ObjectId& filter : options.filters) {
    absl::StatusOr<ReadyCounts> ready{ReadyCounts()};
    if (filter.kind == v1::KIND_SERVICE) ready = CountEndpoints(filter, session.reader);
    if (!ready.ok()) return session.CallFailed(ready.status());
    std::optional<Table> table;
    const auto write = [&](const v1::Object& object) {
      if (!table) {
        if (printed) session.out << '\n';
        table.emplace(ColumnsOf(filter.kind, wide), session.out, wide ? 0 : session.screen.columns);
      }
      // Skips objects of other kinds, because their columns differ.
      if (IdOf(object).kind == filter.kind) table->Row(CellsOf(object, wide, *ready));
    };
    const absl::StatusOr<size_t> count = WriteObjects(filter, session, write);
    if (table) table->Finish();
    if (!count.ok()) return session.CallFailed(count.status());
    printed = printed || table;
    if (*count == 0) code = Worse(code, ReportNothing(filter, session));
  }
  return code;
}

constexpr char kListStart[] = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [";

// Prints an object. If `single` is false, the JSON output is an item of a List.
void PrintObject(const v1::Object& object, OutputFormat format, bool single, bool first,
                 std::ostream& out) {
  if (format == OutputFormat::kName) {
    out << IdOf(object).ToString() << '\n';
  } else if (format == OutputFormat::kYaml) {
    out << (first ? "" : "---\n") << ManifestYaml({object});
  } else if (const std::string json = ManifestJson({object}); single) {
    out << json;
  } else {
    out << (first ? kListStart : ",") << "\n    "
        << absl::StrReplaceAll(absl::StripTrailingAsciiWhitespace(json), {{"\n", "\n    "}});
  }
}

}  // namespace

std::string NotFoundText(const ObjectId& id, Reader& reader) {
  std::string text =
      absl::StrCat(std::string(WordsOf(id.kind).plural), " ", Quote(id.name), " not found",
                   id.name_space.empty() ? "" : " in namespace " + Quote(id.name_space));
  if (id.name_space.empty()) return text;
  std::set<std::string> elsewhere;
  // If the call fails, the text is complete without the other namespaces.
  (void)reader.List(RequestOf({id.kind, "", id.name}), [&](const v1::ListResponse& part) {
    for (const v1::Object& object : part.objects()) {
      if (IdOf(object).name == id.name) elsewhere.insert(Quote(IdOf(object).name_space));
    }
    return true;
  });
  elsewhere.erase(Quote(id.name_space));
  if (elsewhere.empty()) return text;
  return absl::StrCat(text, "; found in namespace ", absl::StrJoin(elsewhere, ", "));
}

ExitCode Execute(const GetOptions& options, Session& session) {
  if (options.output == OutputFormat::kTable || options.output == OutputFormat::kWide) {
    return PrintTables(options, session);
  }
  const ObjectId& first = options.filters.front();
  // A name selects one object, unless it is searched in all namespaces.
  const bool single = options.filters.size() == 1 && !first.name.empty() &&
                      (!first.name_space.empty() || !WordsOf(first.kind).namespaced);
  bool empty = true;
  const auto write = [&](const v1::Object& object) {
    PrintObject(object, options.output, single, std::exchange(empty, false), session.out);
  };
  ExitCode code = ExitCode::kOk;
  for (const ObjectId& filter : options.filters) {
    const absl::StatusOr<size_t> count = WriteObjects(filter, session, write);
    if (!count.ok()) return session.CallFailed(count.status());
    if (*count == 0) code = Worse(code, ReportNothing(filter, session));
  }
  // An empty List is also JSON.
  if (options.output == OutputFormat::kJson && !single && (!empty || code == ExitCode::kOk)) {
    session.out << (empty ? absl::StrCat(kListStart, "]") : "\n  ]")
                << ",\n  \"kind\": \"List\"\n}\n";
  }
  return code;
}

}  // namespace svcmap::api
