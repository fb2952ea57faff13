// Prints objects one at a time, in constant memory, in an output format of `svcmapctl get`.
#pragma once

#include <iosfwd>
#include <memory>

#include "api/cli/options.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual void Write(const v1::Object& object) = 0;
  virtual void Finish() {}  // Must be called after the last object.
};

// If `single` is true, the JSON output is one object. If `single` is false, the JSON output is a
// List, even for zero or one object.
std::unique_ptr<ObjectWriter> MakeObjectWriter(OutputFormat format, v1::Kind kind, bool single,
                                               std::ostream& out);

}  // namespace svcmap::api
