// Turns our rule expressions into libnftnl's.
#pragma once

#include <functional>

#include "nft/expr/expr.h"

struct nftnl_rule;

namespace svcmap::nft {

// A set as a look-up refers to it: by name, and by id while its creation is in the same batch.
struct SetHandle {
  const char* name;
  uint32_t id;
};

// Appends `expr` to `rule`. `set_of` finds the set that a Lookup means.
void AppendExpr(nftnl_rule* rule, const Expr& expr,
                const std::function<SetHandle(const Lookup&)>& set_of);

}  // namespace svcmap::nft
