// Keys and values of the state in etcd (docs/fleet.md). Pure functions.
//
//     PREFIX/state/head                     the last transaction, see Head
//     PREFIX/state/services/NS/NAME         Service, and endpointslices/NS/NAME, servicecidrs/NAME
//     PREFIX/nodes/NAME                     the Node object of one node
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/fleet/node_status.h"
#include "api/source/object.h"

namespace svcmap::etcd {

using fleet::Head;
using fleet::ParseHead;
using source::Item;
using source::Resource;

class Schema {
 public:
  // `prefix` does not end with a slash.
  Schema(const std::string& prefix, const std::string& node_name);

  const std::string& head() const { return head_; }
  // Range of the keys below PREFIX/state/, including the head.
  const std::string& state() const { return state_; }
  const std::string& state_end() const { return state_end_; }
  // Key of the Node object of this node.
  const std::string& node() const { return node_; }

  // The object that a key stores.
  struct Name {
    Resource resource;
    std::string object;  // "namespace/name", or "name" for cluster-scoped resources.
  };
  // Returns nullopt if no object has this key. The head is not an object.
  std::optional<Name> NameOf(std::string_view key) const;

 private:
  std::string state_, state_end_, head_, node_, node_name_;
};

// Decodes a value: JSON if it starts with "{", and otherwise protobuf, with or without the envelope
// of Kubernetes. Returns INVALID_ARGUMENT with the field if the value cannot be decoded or is not
// the object `name`.
absl::StatusOr<Item> DecodeValue(const Schema::Name& name, std::string_view value);

}  // namespace svcmap::etcd
