#include "proxy/saved/object_store.h"
namespace svcmap::proxy {
void ObjectStore::Put(Kind, const std::string&, const std::string&, uint64_t) {}
void ObjectStore::Remove(Kind, const std::string&) {}
void ObjectStore::SetPartial(bool) {}
void ObjectStore::Write(uint64_t) {}
bool ObjectStore::Await() { return true; }
bool ObjectStore::works() const { return true; }
bool ObjectStore::needs_everything() const { return false; }
void ObjectStore::Rewrite(const std::function<void(const PutFn&)>&, uint64_t) {}
}
