#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "absl/status/statusor.h"
#include "proxy/state/objects.h"
namespace svcmap::proxy {
struct SavedObject { Kind kind = Kind::kService; std::string key; std::string message; uint64_t first_seen = 0; };
struct Leader { uint64_t epoch = 0; std::string name, instance; };
struct SavedObjects { std::vector<SavedObject> objects; bool partial = false; uint64_t revision = 0; Leader leader; };
class ObjectStore {
 public:
  using PutFn = std::function<void(Kind, const std::string&, const std::string&, uint64_t)>;
  void Put(Kind, const std::string& key, const std::string& message, uint64_t first_seen);
  void Remove(Kind, const std::string& key);
  void SetPartial(bool partial);
  void Write(uint64_t revision);
  bool Await();
  bool works() const;
  bool needs_everything() const;
  void Rewrite(const std::function<void(const PutFn&)>& objects, uint64_t revision);
};
}  // namespace svcmap::proxy
