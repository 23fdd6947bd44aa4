// Ctrl-C for commands that have something to say before they end.
#pragma once

namespace fusetune::cli {

/// Thrown by commands to end with exit code 130.
struct Interrupted {};

/// From here on the first SIGINT or SIGTERM only makes interrupted() true; another one, a second later or
/// more, ends the process at once.
void catch_interrupts();
bool interrupted();
/// Throws Interrupted if interrupted().
void stop_if_interrupted();

}  // namespace fusetune::cli
