#include "api/bundle/name_hash.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

namespace svcmap::api {
namespace {

using google::protobuf::FieldDescriptor;

bool IsOfWord(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.'; }

std::string HashOf(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) != 1) std::abort();
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
  const auto learn = [this](const auto& message) {
    Learn(message.metadata().namespace_());
    Learn(message.metadata().name());
  };
  if (object.has_service()) learn(object.service());
  if (object.has_endpoint_slice()) learn(object.endpoint_slice());
  if (object.has_node()) learn(object.node());
  if (object.has_service_cidr()) learn(object.service_cidr());
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

void NameHash::Message(google::protobuf::Message& message) const {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  const bool is_map_entry = message.GetDescriptor()->options().map_entry();
  for (const FieldDescriptor* field : fields) {
    if (is_map_entry && field->number() == 1) continue;  // The key, such as a label name.
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Message(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                     : *reflection.MutableMessage(&message, field));
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        if (field->is_repeated()) {
          reflection.SetRepeatedString(&message, field, i,
                                       Text(reflection.GetRepeatedString(message, field, i)));
        } else {
          reflection.SetString(&message, field, Text(reflection.GetString(message, field)));
        }
      }
    }
  }
}

}  // namespace svcmap::api
