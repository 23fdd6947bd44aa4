// How a kernel's compilation ended, whichever compiler it was.
#pragma once

namespace fusetune::backend {

/// `unavailable`: there is no compiler here and no earlier image, which says nothing about the kernel.
enum class CompileStatus { ok, failed, timeout, resource_limit, unavailable };

}  // namespace fusetune::backend
