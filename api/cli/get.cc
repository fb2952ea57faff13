// Implements `svcmapctl get`.
#include <functional>
#include <ostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/cli/commands.h"
#include "api/cli/object_writer.h"
#include "api/convert/quote.h"

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

// Lists the objects that match `filter`. Creates the writer when the first response arrives, so a
// failed call prints nothing.
absl::StatusOr<size_t> WriteObjects(const ObjectId& filter, const Session& session,
                                    const std::function<ObjectWriter&()>& writer) {
  size_t count = 0;
  const absl::Status status =
      session.reader.List(RequestOf(filter), [&](const v1::ListResponse& part) {
        for (const v1::Object& object : part.objects()) writer().Write(object);
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
    std::unique_ptr<ObjectWriter> writer;
    const absl::StatusOr<size_t> count = WriteObjects(filter, session, [&]() -> ObjectWriter& {
      if (!writer) {
        if (printed) session.out << '\n';
        writer = MakeTableWriter(filter.kind, wide, *ready, session.screen.columns, session.out);
      }
      return *writer;
    });
    if (writer) writer->Finish();
    if (!count.ok()) return session.CallFailed(count.status());
    printed = printed || writer;
    if (*count == 0) code = Worse(code, ReportNothing(filter, session));
  }
  return code;
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
  std::unique_ptr<ObjectWriter> writer;
  const auto make = [&]() -> ObjectWriter& {
    if (!writer) writer = MakeObjectWriter(options.output, single, session.out);
    return *writer;
  };
  ExitCode code = ExitCode::kOk;
  for (const ObjectId& filter : options.filters) {
    const absl::StatusOr<size_t> count = WriteObjects(filter, session, make);
    if (!count.ok()) return session.CallFailed(count.status());
    if (*count == 0) code = Worse(code, ReportNothing(filter, session));
  }
  if (!single && code == ExitCode::kOk) make();  // An empty List is also JSON.
  if (writer) writer->Finish();
  return code;
}

}  // namespace svcmap::api
