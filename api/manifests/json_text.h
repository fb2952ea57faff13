// Writes JSON and YAML. Escapes unprintable characters (api/log/printable.h). Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace svcmap::api {

std::string JsonText(
    const nlohmann::ordered_json& value);  // Indented, with a line break at the end.
std::string JsonLine(const nlohmann::ordered_json& value);  // JSON on one line.
std::string YamlText(const nlohmann::ordered_json& value);

}  // namespace svcmap::api
