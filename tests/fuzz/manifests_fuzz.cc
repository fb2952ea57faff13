// Fuzzes ReadManifests with arbitrary text, and passes accepted objects through the writers and the
// converter.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/convert/convert.h"
#include "api/log/printable.h"
#include "api/manifests/manifests.h"
#include "google/protobuf/util/message_differencer.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxErrorBytes = 2000;
// Maximum size of the objects per byte of text. The size of an object can exceed the size of its
// text, because "{}" in a list becomes a complete message.
constexpr size_t kMaxSpacePerByte = 2000;

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckErrors(const std::vector<ManifestError>& errors) {
  Require(errors.size() <= 2 * (kMaxManifestErrors + 1));  // Errors and misspelled objects.
  for (const ManifestError& error : errors) {
    const std::string text = error.ToString();
    Require(text.size() <= kMaxErrorBytes && !error.reason.empty());
    for (size_t i = 0; i < text.size();) {
      const size_t length = Utf8Length(std::string_view(text).substr(i));
      Require(length > 0);
      i += length;
    }
  }
}

// Reads manifests. Checks that the size of the text limits the size of the objects. Text with YAML
// aliases has a larger limit.
std::vector<v1::Object> ReadChecked(std::string_view text) {
  const Manifests manifests = ReadManifests(text, "fuzz");
  CheckErrors(manifests.errors);
  CheckErrors(manifests.warnings);
  std::vector<v1::Object> objects;
  size_t space = 0;
  for (const ManifestObject& object : manifests.objects) {
    Require(object.document > 0 && object.line > 0);
    space += object.object.SpaceUsedLong();
    objects.push_back(object.object);
  }
  const bool aliases = text.find('*') != std::string_view::npos;
  Require(space <= kMaxSpacePerByte * (text.size() + (aliases ? kMaxAliasValues : 0)));
  return objects;
}

void RequireEqual(const std::vector<v1::Object>& a, const std::vector<v1::Object>& b) {
  Require(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    Require(google::protobuf::util::MessageDifferencer::Equals(a[i], b[i]));
  }
}

}  // namespace
}  // namespace svcmap::api

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace svcmap::api;
  if (size > 1 << 20) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<svcmap::v1::Object> objects = ReadChecked(text);
  RequireEqual(objects, ReadChecked(ManifestJson(objects)));
  RequireEqual(objects, ReadChecked(ManifestYaml(objects)));
  for (const svcmap::v1::Object& object : objects) Require(ConvertObject(object, {}).ok());
  return 0;
}
