// Commands of svcmapctl. Each command is implemented in a file with the command's name, such as
// apply.cc.
#pragma once

#include "api/cli/options.h"
#include "api/cli/session.h"

namespace svcmap::api {

// Returns: services "web" not found in namespace "default"; found in namespace "shop"
std::string NotFoundText(const ObjectId& id, Reader& reader);

ExitCode RunApply(const Options& options, Session& session);
ExitCode RunDelete(const Options& options, Session& session);
ExitCode RunAcceptSnapshot(const Options& options, Session& session);
ExitCode RunGet(const Options& options, Session& session);
ExitCode RunStatus(const Options& options, Session& session);
ExitCode RunDump(const Options& options, Session& session);
ExitCode RunExplain(const Options& options, Session& session);
ExitCode RunWait(const Options& options, Session& session);
ExitCode RunWatch(const Options& options, Session& session);
ExitCode RunCheck(const Options& options, Session& session);
ExitCode RunTop(const Options& options, Session& session);
ExitCode RunSupportBundle(const Options& options, Session& session);
ExitCode RunMigrateCheck(const Options& options, Session& session);
ExitCode RunFleetStatus(const Options& options, Session& session);
ExitCode RunFleetNodes(const Options& options, Session& session);
ExitCode RunFleetWait(const Options& options, Session& session);
ExitCode RunFleetExplain(const Options& options, Session& session);
ExitCode RunFleetServe(const Options& options, Session& session);
ExitCode RunFleetApply(const Options& options, Session& session);
ExitCode RunVersion(const Options& options, Session& session);

}  // namespace svcmap::api
