// The worker process of the session tests.
#include "measure/worker.h"

/// A candidate's SIGSEGV ends the worker by that signal also where AddressSanitizer would report it itself.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): its name for it
  return "handle_segv=0";
}

int main() { return fusetune::measure::worker_main(); }
