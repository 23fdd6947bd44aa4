// The worker process of the session tests.
#include "measure/worker.h"

// A candidate's SIGSEGV ends the worker by that signal also where a sanitizer would report it itself.
// NOLINTBEGIN(bugprone-reserved-identifier): their names for it
extern "C" const char* __asan_default_options() { return "handle_segv=0"; }
extern "C" const char* __tsan_default_options() { return "handle_segv=0"; }
// NOLINTEND(bugprone-reserved-identifier)

int main() { return fusetune::measure::worker_main(); }
