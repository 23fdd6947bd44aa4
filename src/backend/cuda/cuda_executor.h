// Runs compiled cubins on a GPU through the driver.
//
// What is timed is one captured graph of all passes of a sample, between two events: the host's launches cost
// nothing then. A pass by itself, and one whose kernels are stamped, is launched kernel by kernel.
#pragma once

#include <memory>

#include "backend/executor.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/problem.h"

namespace fusetune::backend::cuda {

/// Makes options.device usable in this process; `data` is copied. Throws DriverError, and
/// base::EnvironmentError where there is no driver or no such device.
std::unique_ptr<Executor> make_executor(const block::Problem& problem, const block::Mask& mask,
                                        const block::BlockData& data, const ExecutorOptions& options);

}  // namespace fusetune::backend::cuda
