// Descriptions and examples that --help prints.
#pragma once

namespace svcmap::api {

extern const char kProgramDescription[];
extern const char kProgramFooter[];
extern const char kApplyFooter[];
extern const char kDeleteFooter[];
extern const char kAcceptSnapshotFooter[];
extern const char kGetFooter[];
extern const char kStatusFooter[];
extern const char kDumpFooter[];
extern const char kExplainFooter[];
extern const char kWaitFooter[];
extern const char kWatchFooter[];
extern const char kCheckFooter[];
extern const char kTopFooter[];
extern const char kBundleFooter[];
extern const char kFleetFooter[];
extern const char kVersionFooter[];
extern const char kHelpFooter[];
extern const char kCompletionFooter[];
extern const char kMigrateFooter[];

}  // namespace svcmap::api
