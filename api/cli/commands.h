// Commands of svcmapctl. Each command is implemented in a file with the command's name, such as
// apply.cc.
#pragma once

#include "api/cli/options.h"
#include "api/cli/session.h"

namespace svcmap::api {

ExitCode RunApply(const ApplyOptions& options, Session& session);
ExitCode RunDelete(const DeleteOptions& options, Session& session);
ExitCode RunGet(const GetOptions& options, Session& session);
ExitCode RunStatus(const StatusOptions& options, Session& session);
ExitCode RunDump(const DumpOptions& options, Session& session);
ExitCode RunExplain(const ExplainOptions& options, Session& session);
ExitCode RunWait(const WaitOptions& options, Session& session);
ExitCode RunWatch(const WatchOptions& options, Session& session);
ExitCode RunCheck(const CheckOptions& options, Session& session);
ExitCode RunTop(const TopOptions& options, Session& session);
ExitCode RunSupportBundle(const BundleOptions& options, Session& session);
ExitCode RunMigrateCheck(const MigrateCheckOptions& options, Session& session);

}  // namespace svcmap::api
