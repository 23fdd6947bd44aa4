// The worker's side: loads, checks and times candidates for a session, and may die doing so.
#pragma once

namespace fusetune::measure {

/// Body of the hidden command `worker`: answers the session's requests, which come on file descriptor 3, on
/// 4, until the session closes its end. Returns the exit code.
int worker_main();

}  // namespace fusetune::measure
