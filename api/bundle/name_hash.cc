#include "api/bundle/name_hash.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "api/convert/kinds.h"

namespace svcmap::api {
namespace {

bool IsOfWord(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.'; }

std::string HashOf(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return "n-" + absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), 5));
}

}  // namespace

std::string NameHash::RandomSalt() {
  unsigned char salt[32];
  if (RAND_bytes(salt, sizeof(salt)) != 1) std::abort();
  return {reinterpret_cast<const char*>(salt), sizeof(salt)};
}

void NameHash::Learn(const std::string& name) {
  if (!std::any_of(name.begin(), name.end(), absl::ascii_isalpha)) return;
  hashes_.try_emplace(name, HashOf(salt_ + name));
}

void NameHash::Learn(const v1::Object& object) {
  if (const v1::ObjectMeta* metadata = FindMetadata(object)) {
    Learn(metadata->namespace_());
    Learn(metadata->name());
  }
  for (const v1::Endpoint& endpoint : object.endpoint_slice().endpoints()) {
    Learn(endpoint.node_name());
  }
}

std::string NameHash::Word(std::string_view word) const {
  const auto found = hashes_.find(std::string(word));
  if (found != hashes_.end()) return found->second;
  // A dot at the end can be the end of a sentence.
  if (word.size() > 1 && word.ends_with('.')) return Word(word.substr(0, word.size() - 1)) + ".";
  return std::string(word);
}

std::string NameHash::Text(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), IsOfWord);
    const auto length = static_cast<size_t>(end - text.begin());
    if (length == 0) {
      out += text.front();
      text.remove_prefix(1);
    } else {
      out += Word(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string NameHash::QuotedText(std::string_view text) const {
  std::string out;
  bool quoted = false;
  while (!text.empty()) {
    const size_t length = std::min(text.find('"'), text.size());
    out += quoted ? Text(text.substr(0, length)) : std::string(text.substr(0, length));
    if (length < text.size()) out += '"';
    text.remove_prefix(std::min(length + 1, text.size()));
    quoted = !quoted;
  }
  return out;
}

std::string NameHash::JsonLines(std::string_view lines) const {
  using Json = nlohmann::ordered_json;
  const std::function<void(Json&)> replace = [&](Json& value) {
    if (value.is_string()) value = Text(value.get_ref<const std::string&>());
    if (!value.is_structured()) return;
    for (Json& member : value) replace(member);
  };
  std::istringstream in{std::string(lines)};
  std::string out;
  for (std::string line; std::getline(in, line);) {
    Json value = Json::parse(line);
    replace(value);
    out += value.dump() + "\n";
  }
  return out;
}

}  // namespace svcmap::api
