// Ctrl-C: for commands that have something to say before they end, and for those that only compute.
#pragma once

namespace fusetune::cli {

/// Thrown by commands to end with exit code 130.
struct Interrupted {};

/// From here on SIGINT, SIGTERM and SIGHUP call `end` on a thread of its own, which has to end the process.
void end_at_interrupts(void (*end)());
/// From here on, whatever was said before, the first of them only makes interrupted() true; another one, a
/// second later or more, ends the process at once.
void catch_interrupts();
bool interrupted();
/// Throws Interrupted if interrupted().
void stop_if_interrupted();

}  // namespace fusetune::cli
