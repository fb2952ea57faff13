// Prints objects one at a time, in constant memory, in an output format of `svcmapctl get`.
#pragma once

#include <iosfwd>
#include <memory>

#include "api/cli/columns.h"
#include "api/cli/options.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual void Write(const v1::Object& object) = 0;
  virtual void Finish() {}  // Must be called after the last object.
};

// Returns a writer for JSON, YAML or names. If `single` is true, the JSON output is one object. If
// `single` is false, the JSON output is a List, even for zero or one object.
std::unique_ptr<ObjectWriter> MakeObjectWriter(OutputFormat format, bool single, std::ostream& out);

// Returns a writer that prints the objects of one kind as a table. Shortens cells so that lines
// have at most `columns` characters, unless `columns` is 0 or `wide` is set.
std::unique_ptr<ObjectWriter> MakeTableWriter(v1::Kind kind, bool wide, const ReadyCounts& ready,
                                              size_t columns, std::ostream& out);

}  // namespace svcmap::api
