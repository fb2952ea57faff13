// Parses the fields of a configuration file.
#pragma once

#include <string_view>

#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

// Sets the fields of `result.config` that `text` contains. Adds syntax and type errors to `result`.
// Does not apply defaults and does not check ranges.
void ReadConfigurationFields(std::string_view text, ReadConfiguration& result);

}  // namespace svcmap::api
