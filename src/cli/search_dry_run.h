// search --dry-run: what the search would take, and what it would miss, without making it.
#pragma once

#include "cli/search_run.h"

namespace fusetune::cli {

/// Predicts the search, prints that (request.json as of a search) and returns the exit code. `session` may be
/// one that runs nothing. A database that is there is read, none is made.
int dry_run(const SearchRequest& request, measure::Session& session,
            const measure::SessionOptions& session_options);

}  // namespace fusetune::cli
