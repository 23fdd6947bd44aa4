// The cpu backend's answers for `devices` and `doctor`.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace fusetune::backend::cpu {

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace fusetune::backend::cpu
