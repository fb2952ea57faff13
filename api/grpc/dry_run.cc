#include "api/grpc/dry_run.h"

#include "api/convert/convert.h"
#include "nft/text/nft_text.h"

namespace svcmap::api {
namespace {

void FillElement(const nft::TableSpecs& tables, const nft::ElementParts& words,
                 v1::ElementChange& element) {
  element.set_change(words.verb == nft::Verb::kAdd ? v1::ElementChange::ADDED
                                                   : v1::ElementChange::DELETED);
  element.set_family(std::string(FamilyName(words.set.family)));
  element.set_set(tables[Index(words.set.family)].sets[words.set.set].name);
  element.set_key(words.key);
  element.set_data(words.data);
  element.set_comment(words.comment);
}

}  // namespace

v1::Ack ToAck(const nft::TableSpecs& tables, const proxy::DryRun& dry_run) {
  v1::Ack ack;
  ack.set_revision(dry_run.revision);
  ack.set_held(dry_run.held);
  for (const proxy::Finding& finding : dry_run.findings) *ack.add_results() = ToProto(finding);
  ack.set_outcome(dry_run.rows.empty() ? v1::UNCHANGED : v1::WOULD_CHANGE);
  if (dry_run.rows.empty()) return ack;
  v1::DryRun& reported = *ack.mutable_dry_run();
  reported.set_rewrites_tables(dry_run.recreates);
  uint64_t deleted = 0, added = 0;
  nft::ForEachElementParts(tables, dry_run.rows, [&](const nft::ElementParts& words) {
    ++(words.verb == nft::Verb::kAdd ? added : deleted);
    if (deleted + added > kMaxListedElements) return;
    FillElement(tables, words, *reported.add_elements());
  });
  reported.set_deleted(deleted);
  reported.set_added(added);
  return ack;
}

}  // namespace svcmap::api
