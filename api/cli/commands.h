// Commands of svcmapctl. Each command is implemented in a file with the command's name, such as
// apply.cc.
#pragma once

#include "api/cli/options.h"
#include "api/cli/session.h"

namespace svcmap::api {

// Returns: services "web" not found in namespace "default"; found in namespace "shop"
std::string NotFoundText(const ObjectId& id, Reader& reader);

ExitCode Execute(const ApplyOptions& options, Session& session);
ExitCode Execute(const DeleteOptions& options, Session& session);
ExitCode Execute(const AcceptSnapshotOptions& options, Session& session);
ExitCode Execute(const GetOptions& options, Session& session);
ExitCode Execute(const StatusOptions& options, Session& session);
ExitCode Execute(const DumpOptions& options, Session& session);
ExitCode Execute(const ExplainOptions& options, Session& session);
ExitCode Execute(const WaitOptions& options, Session& session);
ExitCode Execute(const WatchOptions& options, Session& session);
ExitCode Execute(const CheckOptions& options, Session& session);
ExitCode Execute(const TopOptions& options, Session& session);
ExitCode Execute(const BundleOptions& options, Session& session);
ExitCode Execute(const MigrateCheckOptions& options, Session& session);
ExitCode Execute(const FleetOptions& options, Session& session);
ExitCode Execute(const FleetExplainOptions& options, Session& session);
ExitCode Execute(const FleetServeOptions& options, Session& session);
ExitCode Execute(const FleetApplyOptions& options, Session& session);
ExitCode Execute(const VersionOptions& options, Session& session);

}  // namespace svcmap::api
