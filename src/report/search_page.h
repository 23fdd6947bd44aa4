// A search as a page: what it found and how sure that is, and everything measured for it.
#pragma once

#include <string>

#include "store/contents.h"

namespace fusetune::report {

/// `contents`: of one problem and one environment, the search's. `run`: one of contents.runs. What its row
/// does not say (an older version's, an interrupted search's) is left out.
std::string search_page(const store::Contents& contents, const store::RunRecord& run);

}  // namespace fusetune::report
