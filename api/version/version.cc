#include "api/version/version.h"

namespace svcmap::api {

std::string VersionLine(const std::string& program) {
  return program + " " SVCMAP_VERSION " (commit " SVCMAP_COMMIT ")";
}

}  // namespace svcmap::api
