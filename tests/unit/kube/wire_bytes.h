// Encodes messages as a Kubernetes API server does. The field numbers are from Kubernetes'
// generated.proto files, not from kubernetes.proto. Like the API server, the functions also write
// empty fields, unless the fields are pointers in the Go types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace svcmap::kube::test::pb {

inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

// Encodes a field of type string, bytes or message.
inline std::string Bytes(uint32_t number, std::string_view bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}

// Encodes a field of type integer or boolean.
inline std::string Int(uint32_t number, int64_t value) {
  return Varint(number << 3) + Varint(static_cast<uint64_t>(value));
}

// Encodes metav1.ListMeta with the field numbers selfLink = 1, resourceVersion = 2, continue = 3,
// remainingItemCount = 4.
inline std::string ListMeta(std::string_view resource_version, std::string_view next) {
  return Bytes(1, "") + Bytes(2, resource_version) + Bytes(3, next) + Int(4, 7);
}

// Encodes a list with the field numbers metadata = 1 and items = 2.
inline std::string ListOf(std::string_view item, std::string_view resource_version = "500",
                          std::string_view next = "") {
  return Bytes(1, ListMeta(resource_version, next)) + Bytes(2, item);
}

// Encodes metav1.ObjectMeta. `more` contains labels = 11 and annotations = 12. The creation time is
// a metav1.Time {seconds = 1, nanos = 2}.
inline std::string ObjectMeta(std::string_view name, std::string_view name_space,
                              std::string_view resource_version, std::string_view more = "") {
  return Bytes(1, name) +                                     // name
         Bytes(2, "") +                                       // generateName
         Bytes(3, name_space) +                               // namespace
         Bytes(4, "") +                                       // selfLink
         Bytes(5, "8f2a") +                                   // uid
         Bytes(6, resource_version) +                         // resourceVersion
         Int(7, 0) +                                          // generation
         Bytes(8, Int(1, 1767225600) + Int(2, 0)) +           // creationTimestamp, 2026-01-01
         std::string(more) +                                  //
         Bytes(17, Bytes(1, "kubectl") + Bytes(2, "Apply") +  // managedFields
                       Bytes(7, Bytes(1, R"({"f:spec":{}})")));
}

}  // namespace svcmap::kube::test::pb
