// Converts rule expressions to libnftnl expressions.
#pragma once

#include <functional>

#include "nft/model/expr.h"

struct nftnl_rule;

namespace svcmap::nft {

// A reference to a set in a lookup: by name, and also by id if the same batch creates the set.
struct SetHandle {
  const char* name;
  uint32_t id;
};

// Appends `expr` to `rule`. `set_of` returns the set of a Lookup.
void AppendExpr(nftnl_rule* rule, const Expr& expr,
                const std::function<SetHandle(const Lookup&)>& set_of);

}  // namespace svcmap::nft
