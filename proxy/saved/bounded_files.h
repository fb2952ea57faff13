// Files whose calls return within a time limit even if the disk does not respond.
//
// A write to a hung disk blocks its thread in the kernel, and no signal can interrupt the write.
// Each call therefore runs on a worker thread. A call that takes longer than its limit fails with
// kDeadlineExceeded, and its worker continues to wait. Until the worker returns, all other calls
// fail immediately, so only a few threads ever wait for a hung disk.
#pragma once

#include <chrono>
#include <memory>

#include "proxy/saved/files.h"

namespace svcmap::proxy {

struct BoundedFilesLimits {
  // Limit for append, rename and remove, for which the reconcile loop waits.
  std::chrono::milliseconds write{1000};
  // Limit for sync, for which only the background thread waits.
  std::chrono::milliseconds sync{30000};
  std::chrono::milliseconds other{5000};
};

// `files` must exist until the process exits.
std::unique_ptr<Files> MakeBoundedFiles(Files& files, BoundedFilesLimits limits = {});

}  // namespace svcmap::proxy
