// The emulator's answers for `devices` and `doctor`.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace fusetune::backend::simt {

std::unique_ptr<Backend> make_simt_backend();

}  // namespace fusetune::backend::simt
