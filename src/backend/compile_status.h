// How a kernel's compilation ended, whichever compiler it was.
#pragma once

namespace fusetune::backend {

enum class CompileStatus { ok, failed, timeout, resource_limit };

}  // namespace fusetune::backend
