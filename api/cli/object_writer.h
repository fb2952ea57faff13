// Prints objects one after another, in constant memory, in one of the formats of `get`.
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
  virtual void Finish() {}  // Required at the end.
};

// With `single` JSON is one object; otherwise it is a List, also of one or none.
std::unique_ptr<ObjectWriter> MakeObjectWriter(OutputFormat format, v1::Kind kind, bool single,
                                               std::ostream& out);

}  // namespace svcmap::api
