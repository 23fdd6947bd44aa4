// Runs generated C++ kernels on this machine's CPU.
#pragma once

#include <memory>

#include "backend/executor.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"

namespace fusetune::backend::cpu {

/// `data` is copied. Throws base::UsageError for a dtype other than f32 and base::EnvironmentError when
/// memory is short or threads cannot be started.
std::unique_ptr<Executor> make_executor(const block::Problem& problem, const block::Mask& mask,
                                        const block::BlockData& data, const ExecutorOptions& options);

}  // namespace fusetune::backend::cpu
