// From the text of a configuration file to the fields that it says. Pure.
#pragma once

#include <string_view>

#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

// Fills `result.config` with what the file says, without defaults for 0 and "" and without a look
// at ranges, and adds what cannot be read to `result`.
void ReadConfigurationFields(std::string_view text, ReadConfiguration& result);

}  // namespace svcmap::api
