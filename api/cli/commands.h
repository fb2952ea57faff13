// Commands of svcmapctl. Each command is implemented in a file with the command's name, such as
// apply.cc. This file also implements the command's functions that other files use.
#pragma once

#include <string>
#include <vector>

#include "api/cli/options.h"
#include "api/cli/session.h"
#include "api/migration/findings.h"

namespace svcmap::api {

// Returns: services "web" not found in namespace "default"; found in namespace "shop"
std::string NotFoundText(const ObjectId& id, Reader& reader);
std::string StateName(v1::State state);                       // "waiting for state"
std::string StatusLine(const v1::GetStatusResponse& status);  // "serving, revision 12"
// Output of `svcmapctl migrate check`.
std::string FindingsText(const std::vector<MigrationFinding>& findings);
std::string FindingsJson(const std::vector<MigrationFinding>& findings);

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
