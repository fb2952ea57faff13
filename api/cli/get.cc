// Implements `svcmapctl get`.
#include <ostream>

#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/object_writer.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

// Example: no services found in namespace "shop"
std::string NothingFound(const ObjectId& filter) {
  return absl::StrCat("no ", std::string(WordsOf(filter.kind).plural),
                      filter.name.empty() ? "" : " named " + Quote(filter.name), " found",
                      filter.name_space.empty() ? "" : " in namespace " + Quote(filter.name_space));
}

}  // namespace

ExitCode Execute(const GetOptions& options, Session& session) {
  const ObjectId& filter = options.filter;
  v1::ListRequest request;
  request.set_kind(filter.kind);
  request.set_namespace_(filter.name_space);
  request.set_name(filter.name);
  // A name with a namespace selects one object. A name without a namespace matches objects in all
  // namespaces.
  const bool single =
      !filter.name.empty() && (!filter.name_space.empty() || !WordsOf(filter.kind).namespaced);

  // The writer is created when the first response arrives, so a failed call prints nothing.
  std::unique_ptr<ObjectWriter> writer;
  const auto make = [&] {
    if (!writer) writer = MakeObjectWriter(options.output, filter.kind, single, session.out);
  };
  size_t count = 0;
  const absl::Status status = session.reader.List(request, [&](const v1::ListResponse& part) {
    make();
    for (const v1::Object& object : part.objects()) writer->Write(object);
    count += static_cast<size_t>(part.objects_size());
    return session.out.good();  // Stops when standard output is closed.
  });
  if (!status.ok()) {
    const bool table =
        options.output == OutputFormat::kTable || options.output == OutputFormat::kWide;
    if (writer && table) writer->Finish();
    return session.CallFailed(status);
  }
  if (count == 0 && !filter.name.empty()) {
    session.Error(NothingFound(filter));
    return ExitCode::kIncomplete;
  }
  make();
  writer->Finish();
  if (count == 0) session.Note(NothingFound(filter));
  return ExitCode::kOk;
}

}  // namespace svcmap::api
