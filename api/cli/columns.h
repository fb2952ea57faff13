// Columns that `svcmapctl get` prints for each kind. Pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Numbers of ready endpoints with a valid address, and of all endpoints of each Service.
class ReadyCounts {
 public:
  void Add(const v1::EndpointSlice& slice);

  // Returns "2/3". A dual-stack endpoint counts once.
  std::string Of(const v1::Service& service) const;

 private:
  struct Count {
    size_t all = 0;
    size_t ready = 0;
  };
  // Namespace and name of the Service, then address type.
  std::map<std::pair<std::string, std::string>, std::map<std::string, Count>> counts_;
};

// Column headings. `wide` includes the columns that only `-o wide` prints.
std::vector<std::string> ColumnsOf(v1::Kind kind, bool wide);

// Returns the cells of one row in the order of ColumnsOf. Unless `wide` is set, long lists are
// shortened: "10.1.0.5,10.1.0.6,+8".
std::vector<std::string> CellsOf(const v1::Object& object, bool wide, const ReadyCounts& ready);

}  // namespace svcmap::api
