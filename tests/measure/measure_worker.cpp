// The worker process of the session tests.
#include "measure/worker.h"

int main() { return fusetune::measure::worker_main(); }
